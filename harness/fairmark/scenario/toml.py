"""Scenario files as text: finding them, parsing TOML, ``--set`` assignments, and line numbers for errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from fairmark.errors import InputError

__all__ = ["apply_override", "line_of", "parse_toml", "read_scenario_file", "shipped_scenarios"]

_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+)\s*=")


def shipped_scenarios() -> dict[str, Path]:
    """The scenario files shipped with fairmark, by name."""
    folder = Path(str(resources.files("fairmark.scenarios")))
    return {p.stem: p for p in sorted(folder.glob("*.toml"))}


def read_scenario_file(name: str | Path) -> tuple[Path, bytes]:
    """The path and bytes of the file that ``name`` means: a path, or the name of a shipped scenario.

    Raises:
        InputError: there is no such file, or it cannot be read.
    """
    path, shipped = Path(name), shipped_scenarios()
    if not path.is_file():
        path = shipped.get(str(name), path)
    try:
        return path, path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            "there is no such scenario",
            field="SCENARIO",
            value=str(name),
            accepted=f"the path of a TOML file, or one of {', '.join(shipped)}",
        ) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from error


def parse_toml(text: bytes, source: str) -> dict[str, Any]:
    """Parse TOML bytes.

    Raises:
        InputError: the bytes are not UTF-8 or not TOML; the line is named where it is known.
    """
    try:
        return tomllib.loads(text.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise InputError("not UTF-8 text", source=source, line=line) from error
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        problem = re.sub(r"\s*\(at .*\)$", "", str(error))
        raise InputError(
            f"malformed TOML: {problem}",
            source=source,
            line=int(at[1]) if at else None,
            accepted="TOML 1.0",
        ) from error


def apply_override(document: dict[str, Any], assignment: str) -> None:
    """Apply one ``--set path=value`` in place; the value is read as TOML, or else as a plain string.

    Raises:
        InputError: there is no ``=``, or the path runs through something that is not a table.
    """
    path, separator, raw = assignment.partition("=")
    keys = [k.strip() for k in path.split(".")]
    if not separator or not all(keys):
        raise InputError(
            "cannot be read",
            source="--set",
            value=assignment,
            accepted="PATH=VALUE, such as run.min_query_count=64",
        )
    try:
        value = tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        value = raw
    table: Any = document
    for depth, key in enumerate(keys[:-1]):
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise InputError("is not a table", source="--set", field=".".join(keys[: depth + 1]), value=table)
    table[keys[-1]] = value


def line_of(text: bytes, path: Sequence[str | int]) -> int | None:
    """The 1-based line where the dotted ``path`` is assigned in TOML ``text``; None when not found.

    Understands plain ``[table]`` headers and ``key = value`` lines, which is what scenario files use.
    """
    wanted = [str(p) for p in path if isinstance(p, str)]
    best: int | None = None
    table: list[str] = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _split(header[1])
            best = number if wanted[: len(table)] == table else best
        elif key := _KEY.match(line):
            full = table + _split(key[1])
            if full == wanted[: len(full)]:
                return number
    return best


def _split(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]
