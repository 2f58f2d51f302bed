"""The system's own gauges as they come in: one JSON line per look in the live store, until it is sealed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["GaugeLog", "gauge_columns"]

_FILE: Final = "telemetry.jsonl"
_COLUMNS: Final = ("source", "t_ns", "name", "value")


class GaugeLog:
    """Appends to the live store ``folder``. What was appended outlives the process, however it ends.

    Raises:
        OSError: there is no space.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / _FILE).open("ab", buffering=0)
        self._whole_bytes = os.fstat(self._file.fileno()).st_size

    def append(self, source: str, t_ns: int, values: Mapping[str, float]) -> None:
        """Add what ``source`` said at ``t_ns`` (CLOCK_MONOTONIC): the whole line, or nothing and an error."""
        line = json.dumps([source, t_ns, dict(values)], allow_nan=False).encode() + b"\n"
        written = 0
        try:
            # A disk that fills takes a part of it, and refuses only the next.
            while written < len(line):
                written += self._file.write(line[written:]) or 0
        except OSError:
            self._file.truncate(self._whole_bytes)
            raise
        self._whole_bytes += len(line)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def gauge_columns(folder: Path, epoch_ns: int) -> tuple[dict[str, Any], int]:
    """The table ``telemetry`` of the live store ``folder``, empty if nobody looked, and how many lines of its
    file cannot be read.
    """
    path = folder / _FILE
    # What follows the last newline was cut off when the process was killed.
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    looks = [look for look in map(_look, lines) if look is not None]
    rows = [(source, t_ns - epoch_ns, *item) for source, t_ns, values in looks for item in values.items()]
    columns = {name: [row[position] for row in rows] for position, name in enumerate(_COLUMNS)}
    return columns, len(lines) - len(looks)


def _look(line: bytes) -> tuple[str, int, dict[str, float]] | None:
    """What `GaugeLog.append` wrote; None if it is something else."""
    try:
        source, t_ns, values = json.loads(line)
    except (TypeError, ValueError):
        return None
    known = isinstance(source, str) and isinstance(t_ns, int) and isinstance(values, dict)
    if not known or not all(isinstance(value, (int, float)) for value in values.values()):
        return None
    return source, t_ns, values
