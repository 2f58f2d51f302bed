"""The life cycle of a run as a chain: every line names the SHA-256 of the line before it."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairmark.errors import EvidenceError

__all__ = ["Journal", "read_journal"]

_ORIGIN: Final = "0" * 64
"""What the first line names as its predecessor."""


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


class Journal:
    """Appends to a journal. Every line is on disk before `append` returns.

    A last line without its newline was cut off by a crash: it is removed, and the chain goes on from the
    line before it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        kept, _, cut = (path.read_bytes() if path.exists() else b"").rpartition(b"\n")
        if cut:
            with path.open("r+b") as file:
                file.truncate(len(kept) + 1 if kept else 0)
        self._prev = _digest(kept.rpartition(b"\n")[2]) if kept else _ORIGIN

    def append(self, event: str, **facts: Any) -> None:
        """Append ``event`` with its wall-clock time and ``facts`` (plain JSON values)."""
        utc = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"event": event, "utc": utc, **facts, "prev": self._prev}
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        with self._path.open("ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._prev = _digest(line)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """All entries of the journal at ``path``, its chain checked.

    Raises:
        EvidenceError: it is missing, a line is not JSON, the last line is cut off, or the chain is broken.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EvidenceError(f"{path}: the journal cannot be read ({error.strerror})") from error
    if not content.endswith(b"\n"):
        raise EvidenceError(f"{path}: the journal is empty or its last line is cut off")
    entries: list[dict[str, Any]] = []
    expected = _ORIGIN
    for number, line in enumerate(content[:-1].split(b"\n"), start=1):
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise EvidenceError(f"{path}:{number}: not JSON") from error
        if not isinstance(entry, dict) or entry.get("prev") != expected:
            raise EvidenceError(
                f"{path}:{number}: the chain is broken: prev is not the digest of the line before"
            )
        entries.append(entry)
        expected = _digest(line)
    return entries
