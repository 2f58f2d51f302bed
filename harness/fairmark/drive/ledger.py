"""The attempts ledger: one line for every run that was started, so that best-of-N shows.

The repetitions of a series, all of which must pass, are one attempt.
"""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Final

from fairmark.errors import InputError

__all__ = ["LEDGER", "find_workspace", "record_attempt"]

LEDGER: Final = "attempts.jsonl"
_MARKER: Final = ".fairmark"


def find_workspace(start: Path) -> Path:
    """The nearest folder, from ``start`` upwards, that holds ``.fairmark/``; ``start`` if there is none."""
    start = start.resolve()
    return next((p for p in (start, *start.parents) if (p / _MARKER).is_dir()), start)


def record_attempt(
    workspace: Path, *, run_id: str, scenario_digest: str, mode: str, utc: str, series: str | None
) -> int:
    """Add a line to the ledger and count the attempts at the same scenario, this one included.

    Args:
        series: the id that all repetitions of the run have, which count once; None for a run alone.

    Raises:
        InputError: the ledger cannot be written, or holds a line that is not one of its own.
    """
    path = workspace / LEDGER
    line = {"utc": utc, "run_id": run_id, "scenario_digest": scenario_digest, "mode": mode, "series": series}
    try:
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()
            file.seek(0)
            lines = file.read().splitlines()
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", source=path) from error
    tried = [_tried(path, number, text) for number, text in enumerate(lines, start=1)]
    return len({attempt for digest, attempt in tried if digest == scenario_digest})


def _tried(path: Path, number: int, text: str) -> tuple[str, str]:
    """The scenario digest of a line, and which attempt it is of: its series, or one of its own."""
    try:
        line = json.loads(text)
        digest, series = line["scenario_digest"], line.get("series")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError("is not a line of the attempts ledger", source=path, line=number) from None
    return str(digest), f"line {number}" if series is None else f"series {series}"
