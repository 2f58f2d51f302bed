"""The attempts ledger: one line for every run that was started, so that best-of-N shows."""

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


def record_attempt(workspace: Path, *, run_id: str, scenario_digest: str, mode: str, utc: str) -> int:
    """Add a line to the ledger and count the attempts at the same scenario, this one included.

    Raises:
        InputError: the ledger cannot be written, or holds a line that is not one of its own.
    """
    path = workspace / LEDGER
    line = {"utc": utc, "run_id": run_id, "scenario_digest": scenario_digest, "mode": mode}
    try:
        with path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
            file.flush()
            file.seek(0)
            lines = file.read().splitlines()
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror})", source=path) from error
    return sum(_digest(path, number, text) == scenario_digest for number, text in enumerate(lines, start=1))


def _digest(path: Path, number: int, text: str) -> str:
    try:
        digest = json.loads(text)["scenario_digest"]
    except (ValueError, KeyError, TypeError):
        raise InputError("is not a line of the attempts ledger", source=path, line=number) from None
    return str(digest)
