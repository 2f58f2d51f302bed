"""Recorded arrivals: a text file with one arrival time a line, in seconds, in order."""

from __future__ import annotations

from pathlib import Path

from fairmark.errors import InputError

__all__ = ["read_arrivals"]

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
