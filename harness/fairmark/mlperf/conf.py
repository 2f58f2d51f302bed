"""LoadGen configuration files: syntax, precedence and units of ``TestSettings::FromConfig``.

Source: test_settings_internal.cc:545-812. Where LoadGen rejects a file it says so in a log that few read and
goes on with other values; here it is an `InputError` with the line. What LoadGen accepts and misreads (a key
it does not know, a fraction given to a whole-number key) is kept as a remark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from fairmark.errors import InputError
from fairmark.mlperf.settings import DEFAULTS, FIELDS, Field, Value

__all__ = ["Conf", "Entry", "Layer", "Resolved", "builtin_conf", "parse_conf", "read_conf", "resolve"]

Layer = Literal["builtin", "user", "audit"]

_SPACE: Final = re.compile(r"[ \t\n\v\f\r]+")
_INTEGER: Final = re.compile(r"([+-]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")
_REAL: Final = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan"
    r"|0[xX](?:[0-9a-f]+(?:\.[0-9a-f]*)?|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?)",
    re.IGNORECASE,
)
_UINT64: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class Entry:
    """The last value given to a key, and its line."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Conf:
    """A configuration file: ``model.scenario.key`` to its entry."""

    source: str
    entries: Mapping[str, Entry]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """LoadGen's TestSettings for one model and scenario.

    Attributes:
        values: by the names of test_settings.h; ns, ms, counts and fractions as LoadGen holds them.
        origin: field to ``file:line`` for every value that is not LoadGen's default.
        remarks: what LoadGen would have passed over in silence.
    """

    model: str
    scenario: str
    values: Mapping[str, Value]
    origin: Mapping[str, str]
    remarks: tuple[str, ...]


def builtin_conf() -> Conf:
    """The values compiled into LoadGen 6.0.17."""
    name = "mlperf-6.0.conf"
    text = resources.files("fairmark.mlperf").joinpath(name).read_bytes()
    return parse_conf(text, source=f"built-in {name}")


def read_conf(path: Path) -> Conf:
    """Read a ``user.conf``, ``mlperf.conf`` or ``audit.config``.

    Raises:
        InputError: the file cannot be read, or LoadGen would reject it; names the line.
    """
    try:
        return parse_conf(path.read_bytes(), source=str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from error


def parse_conf(text: bytes, *, source: str) -> Conf:
    """Parse the bytes of a configuration file; see `read_conf`.

    Bytes that are not UTF-8 are kept: LoadGen compares bytes. A byte order mark is refused, since LoadGen
    takes it for the beginning of the first key.
    """
    if text.startswith(b"\xef\xbb\xbf"):
        raise InputError("begins with a byte order mark", source=source, line=1, accepted="plain UTF-8")
    entries: dict[str, Entry] = {}
    remarks: list[str] = []
    for number, line in enumerate(text.decode("utf-8", "surrogateescape").split("\n"), 1):
        words = [word for word in _SPACE.split(line) if word]
        if "#" in words[:2]:
            words = words[: words.index("#")]
        if not words:
            continue
        if len(words) > 1 and words[1] != "=":
            raise InputError(
                "is not 'key = value'",
                source=source,
                line=number,
                value=line.strip(),
                accepted="spaces around =",
            )
        if len(words) < 3:
            remarks.append(f"{source}:{number}: {words[0]} has no value and is passed over")
            continue
        for value in words[2:]:
            _check_value(value, source, number)
        if len(words) > 3:
            remarks.append(f"{source}:{number}: the last of {len(words) - 2} values counts")
        entries[words[0]] = Entry(words[-1], number)
    return Conf(source, entries, tuple(remarks))


def resolve(model: str, scenario: str, *, user: Conf | None = None, audit: Conf | None = None) -> Resolved:
    """LoadGen's settings: its defaults, then the built-in values, then ``user.conf``, then ``audit.config``.

    LoadGen reads an audit file for the model ``*`` only, so its model-specific lines have no effect.

    Raises:
        InputError: ``mode`` is not 0 to 3.
    """
    layers: list[tuple[Conf, Layer, str]] = [(builtin_conf(), "builtin", model)]
    if user is not None:
        layers.append((user, "user", model))
    if audit is not None:
        layers.append((audit, "audit", "*"))
    values: dict[str, Value] = dict(DEFAULTS)
    origin: dict[str, str] = {}
    remarks: list[str] = []
    for conf, layer, name in layers:
        _apply(conf, layer, name, scenario, values, origin, remarks)
        remarks += [*conf.remarks, *(_unused(conf, layer) if layer != "builtin" else ())]
    return Resolved(model, scenario, values, origin, tuple(remarks))


def _check_value(value: str, source: str, line: int) -> None:
    if _INTEGER.fullmatch(value) is None and _REAL.fullmatch(value) is None:
        raise InputError(
            "has a value that is not a number (a comment cannot follow a value)",
            source=source,
            line=line,
            value=value,
            accepted="an integer or a decimal number",
        )


def _lookup(conf: Conf, model: str, scenario: str, key: str) -> Entry | None:
    """The exact key, then any model, then any scenario, then both: LoadGen's order."""
    for prefix in (f"{model}.{scenario}", f"*.{scenario}", f"{model}.*", "*.*"):
        entry = conf.entries.get(f"{prefix}.{key}")
        if entry is not None:
            return entry
    return None


def _apply(
    conf: Conf,
    layer: Layer,
    model: str,
    scenario: str,
    values: dict[str, Value],
    origin: dict[str, str],
    remarks: list[str],
) -> None:
    for field in FIELDS:
        if field.builtin_only and layer != "builtin":
            continue
        if field.only_if is not None and not values[field.only_if]:
            continue
        entry = _lookup(conf, model, field.scenario or scenario, field.key)
        if entry is None:
            continue
        where = f"{conf.source}:{entry.line}"
        values[field.name] = _convert(field, entry, conf.source)
        origin[field.name] = where
        if field.kind != "real" and _INTEGER.fullmatch(entry.text) is None:
            remarks.append(
                f"{where}: {field.key} is a whole number; LoadGen reads {entry.text} as {_whole(entry.text)}"
            )


def _convert(field: Field, entry: Entry, source: str) -> Value:
    if field.kind == "real":
        return _real(entry.text) * field.scale
    whole = _whole(entry.text)
    match field.kind:
        case "one":
            return whole == 1
        case "nonzero":
            return whole != 0
        case "mode":
            modes = ("SubmissionRun", "AccuracyOnly", "PerformanceOnly", "FindPeakPerformance")
            if whole >= len(modes):
                raise InputError(
                    "is no mode",
                    source=source,
                    line=entry.line,
                    field="mode",
                    value=entry.text,
                    accepted="0 to 3",
                )
            return modes[whole]
        case _:
            return whole * int(field.scale) % _UINT64


def _whole(text: str) -> int:
    """``strtoull`` with base 0: hexadecimal, octal or decimal, as far as it reads; at most 2**64 - 1."""
    match = _INTEGER.match(text)
    if match is None:
        return 0
    sign, digits = match[1], match[2].lower()
    base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") else 10
    digits = digits.removeprefix("0x").lstrip("0") or "0"
    # Python refuses to read thousands of digits; 64 bits take no more than 22, in octal.
    magnitude = _UINT64 if len(digits) > 22 else int(digits, base)
    if magnitude >= _UINT64:
        return _UINT64 - 1
    return -magnitude % _UINT64 if sign == "-" else magnitude


def _real(text: str) -> float:
    """``strtod``."""
    if "x" in text.lower():
        return float.fromhex(text)
    return float(text)


def _unused(conf: Conf, layer: Layer) -> Sequence[str]:
    """Lines that LoadGen passes over in silence."""
    known = {field.key for field in FIELDS}
    remarks: list[str] = []
    for name, entry in conf.entries.items():
        key = name.rpartition(".")[2]
        where = f"{conf.source}:{entry.line}: {name}"
        if name.count(".") < 2 or key not in known:
            remarks.append(f"{where} is not a key LoadGen knows")
        elif any(field.key == key and field.builtin_only for field in FIELDS):
            remarks.append(f"{where} cannot be set outside the built-in configuration")
        elif layer == "audit" and not name.startswith("*."):
            remarks.append(f"{where} names a model, and LoadGen reads an audit file for * only")
    return remarks
