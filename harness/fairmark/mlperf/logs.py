"""LoadGen's log files as values, with a finding for everything in them that cannot be read.

Formats: logging.h:706-743 (detail), results.cc:382-639 (summary), logging.cc:281-342 (accuracy).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from fairmark.mlperf.keys import expected, fits

__all__ = ["Detail", "Entry", "Finding", "Note", "read_accuracy", "read_detail", "read_summary"]

Severity = Literal["error", "warning"]

_PREFIX: Final = ":::MLLOG "
_NOT_A_NUMBER: Final = re.compile(r'("value": )-?(?:nan|inf)(?=, "time_ms")')
_SUMMARY_LINE: Final = re.compile(r"^\s*(?:\* )?(.+?)\s*:\s+(.*\S)\s*$")
_HEX: Final = re.compile(r"(?:[0-9A-F]{2})*")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know about a log: a stable id, how bad it is, a sentence, and where."""

    id: str
    severity: Severity
    message: str
    where: str


Note = Callable[[str, Severity, str, str], None]
"""Takes the parts of a `Finding`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a detail log. ``value`` is None where it is NaN, infinite or not what its key holds."""

    key: str
    value: Any
    line: int
    is_error: bool
    is_warning: bool


@dataclass(frozen=True, slots=True)
class Detail:
    """A detail log."""

    name: str
    entries: tuple[Entry, ...] = field(default=())

    def get(self, key: str) -> Any:
        """The first value of a key, as the submission checker reads it; None if it is not there."""
        return next((entry.value for entry in self.entries if entry.key == key), None)

    def where(self, key: str) -> str:
        """``file:line`` of a key's first entry."""
        line = next((entry.line for entry in self.entries if entry.key == key), None)
        return self.name if line is None else f"{self.name}:{line}"

    def results(self) -> dict[str, Any]:
        """Every printed result, by LoadGen's name."""
        kept = ("result_", "early_stopping_")
        return {e.key: e.value for e in reversed(self.entries) if e.key.startswith(kept)}


def read_detail(path: Path, note: Note) -> Detail:
    """Read ``mlperf_log_detail.txt``."""
    entries: list[Entry] = []
    for number, line in _lines(path, note):
        where = f"{path.name}:{number}"
        if not line.startswith(_PREFIX):
            if line.strip():
                note("log-line-unreadable", "error", "is not a LoadGen log line", where)
            continue
        text, replaced = _NOT_A_NUMBER.subn(r"\1null", line[len(_PREFIX) :])
        try:
            entry = _entry(_parsed(text), number)
        except (ValueError, TypeError, KeyError, RecursionError):
            note("log-line-unreadable", "error", "is cut short or damaged: it is not a JSON object", where)
            continue
        if replaced:
            note("log-not-a-number", "warning", f"{entry.key} is NaN or infinite, which is not JSON", where)
        elif not fits(entry.key, entry.value):
            note("log-value-unusable", "error", f"{entry.key} is not {expected(entry.key)}", where)
            entry = replace(entry, value=None)
        entries.append(entry)
    return Detail(path.name, tuple(entries))


def _parsed(text: str) -> Any:
    """A JSON text that can be written again.

    Raises:
        ValueError: it is not JSON, or holds NaN, an infinite number or half a surrogate pair.
        RecursionError: it is nested too deeply.
    """
    parsed = json.loads(text, strict=False)
    json.dumps(parsed, allow_nan=False, ensure_ascii=False).encode()
    return parsed


def _entry(parsed: Any, number: int) -> Entry:
    metadata = parsed.get("metadata", {}) if isinstance(parsed, dict) else None
    if not isinstance(metadata, dict) or not isinstance(parsed["key"], str):
        raise TypeError("not an MLLOG object")
    is_error, is_warning = (bool(metadata.get(name)) for name in ("is_error", "is_warning"))
    return Entry(parsed["key"], parsed["value"], number, is_error, is_warning)


def read_summary(path: Path, note: Note) -> dict[str, str]:
    """Read ``mlperf_log_summary.txt``: labels to texts; the first of equal labels counts."""
    values: dict[str, str] = {}
    for _, line in _lines(path, note):
        match = _SUMMARY_LINE.match(line)
        if match is not None:
            values.setdefault(match[1], match[2])
    return values


def read_accuracy(path: Path, note: Note) -> list[dict[str, Any]]:
    """Read ``mlperf_log_accuracy.json``: the entries that are whole.

    Submissions publish the file cut down to about 10 KiB, which is not an error of the run.
    """
    text = "\n".join(line for _, line in _lines(path, note)).strip()
    try:
        parsed = json.loads(text) if text else []
    except (ValueError, RecursionError):
        note("accuracy-log-cut", "warning", "is cut short; only its whole entries are read", path.name)
        objects = (_object(entry.rstrip().rstrip(",")) for entry in text.splitlines())
        parsed = [entry for entry in objects if entry is not None]
    if not isinstance(parsed, list):
        note("accuracy-log-unreadable", "error", "is not a list of answers", path.name)
        return []
    whole = [entry for entry in parsed if _is_answer(entry)]
    if len(whole) != len(parsed):
        damaged = len(parsed) - len(whole)
        note("accuracy-entry-damaged", "error", f"{damaged} entries lack an index or whole bytes", path.name)
    return whole


def _object(text: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _is_answer(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    numbers = all(isinstance(entry.get(name), int) and entry[name] >= 0 for name in ("seq_id", "qsl_idx"))
    data = entry.get("data")
    return numbers and isinstance(data, str) and _HEX.fullmatch(data) is not None


def _lines(path: Path, note: Note) -> Iterator[tuple[int, str]]:
    """The numbered lines of a log that may be damaged in any way."""
    try:
        content = path.read_bytes()
    except OSError as error:
        note("log-unreadable", "error", f"cannot be read: {error.strerror}", path.name)
        return
    if content.startswith(b"\xef\xbb\xbf"):
        note("log-byte-order-mark", "warning", "begins with a byte order mark: it was edited", path.name)
        content = content[3:]
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        first = content[: error.start].count(b"\n") + 1
        note("log-not-utf-8", "error", "holds bytes that are not UTF-8", f"{path.name}:{first}")
        text = content.decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        yield number, line.rstrip("\r")
