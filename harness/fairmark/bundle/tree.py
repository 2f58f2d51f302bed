"""A folder as it is on disk: every entry, links and special files included, nothing followed."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Entry", "file_sha256", "walk"]

EntryKind = Literal["file", "symlink", "special", "empty_folder"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry below a folder.

    Attributes:
        path: relative to the folder, forward slashes; undecodable bytes appear as ``\\xNN``.
        kind: what it is; folders that hold something are not entries.
        size: bytes, of regular files.
        links: hard links to the file, from anywhere.
        identity: device and inode, equal for two names of one file.
    """

    path: str
    kind: EntryKind
    size: int
    links: int
    identity: tuple[int, int]


def walk(folder: Path) -> list[Entry]:
    """Every entry below ``folder``, sorted by path. Symbolic links are named, never followed.

    Raises:
        OSError: a folder cannot be read.
    """
    entries: list[Entry] = []
    pending = [(folder, "")]
    while pending:
        current, prefix = pending.pop()
        with os.scandir(current) as scan:
            items = list(scan)
        if not items and prefix:
            entries.append(_entry(prefix[:-1], "empty_folder", current.lstat()))
        for item in items:
            path = prefix + os.fsencode(item.name).decode("utf-8", "backslashreplace")
            facts = item.stat(follow_symlinks=False)
            if stat.S_ISDIR(facts.st_mode):
                pending.append((Path(item.path), f"{path}/"))
            else:
                entries.append(_entry(path, _kind(facts.st_mode), facts))
    return sorted(entries, key=lambda entry: entry.path)


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return "file"
    return "symlink" if stat.S_ISLNK(mode) else "special"


def _entry(path: str, kind: EntryKind, facts: os.stat_result) -> Entry:
    return Entry(path, kind, facts.st_size, facts.st_nlink, (facts.st_dev, facts.st_ino))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, as lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
