"""The system's own gauges as they come in: one JSON line per look in the live store, until it is sealed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

__all__ = ["GaugeLog", "gauge_columns"]

_FILE: Final = "telemetry.jsonl"


class GaugeLog:
    """Appends to the live store ``folder``. What was appended outlives the process, however it ends.

    Raises:
        OSError: there is no space.
    """

    def __init__(self, folder: Path) -> None:
        self._file = (folder / _FILE).open("ab", buffering=0)

    def append(self, source: str, t_ns: int, values: Mapping[str, float]) -> None:
        """Add what ``source`` said at ``t_ns`` (CLOCK_MONOTONIC)."""
        self._file.write(json.dumps([source, t_ns, dict(values)], allow_nan=False).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def gauge_columns(folder: Path, epoch_ns: int) -> dict[str, Any]:
    """The table ``telemetry`` of the live store ``folder``; empty if nobody looked."""
    rows = list(_rows(folder / _FILE))
    return {
        "source": [source for source, _, _, _ in rows],
        "t_ns": [t_ns - epoch_ns for _, t_ns, _, _ in rows],
        "name": [name for _, _, name, _ in rows],
        "value": [value for _, _, _, value in rows],
    }


def _rows(path: Path) -> Iterator[tuple[str, int, str, float]]:
    if not path.exists():
        return
    # What follows the last newline was cut off when the process was killed or the disk was full.
    for line in path.read_bytes().split(b"\n")[:-1]:
        source, t_ns, values = json.loads(line)
        for name, value in values.items():
            yield source, t_ns, name, value
