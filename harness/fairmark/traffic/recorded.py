"""Recorded arrivals: a text file with one arrival time a line, in seconds, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fairmark.errors import InputError

__all__ = ["arrivals_sha256", "read_arrivals"]

_LARGEST_S = 1e9


def read_arrivals(path: Path) -> tuple[int, ...]:
    """The arrivals of a file, in ns after its first one.

    Empty lines and lines that start with ``#`` are skipped.

    Raises:
        InputError: the file cannot be read, is empty, or a line is not a time at or after the one before.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", source=path) from error
    arrivals: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        arrivals.append(_time_ns(word, path, number))
        if len(arrivals) > 1 and arrivals[-1] < arrivals[-2]:
            raise InputError(
                "goes back in time", source=path, line=number, value=word, accepted="times in order"
            )
    if not arrivals:
        raise InputError("holds no arrival", source=path, accepted="one time a line, in seconds")
    return tuple(arrival - arrivals[0] for arrival in arrivals)


def arrivals_sha256(arrivals_ns: Sequence[int]) -> str:
    """The digest that pins a recording: SHA-256 of `read_arrivals` as little-endian int64.

    It is of the arrivals as they are used: comments and the time of the first one do not change it.
    """
    return hashlib.sha256(np.array(arrivals_ns, dtype="<i8").tobytes()).hexdigest()


def _time_ns(word: str, path: Path, line: int) -> int:
    try:
        seconds = float(word)
    except ValueError:
        seconds = float("nan")
    if not 0 <= seconds <= _LARGEST_S:
        raise InputError(
            "is not an arrival time", source=path, line=line, value=word, accepted="seconds, from 0 to 1e9"
        )
    return round(seconds * 1e9)
