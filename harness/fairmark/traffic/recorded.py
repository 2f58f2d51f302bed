"""Recorded arrivals: a text file with one arrival time a line, in seconds, in order."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from fairmark.errors import InputError
from fairmark.samples.source import EMBEDDED
from fairmark.scenario.model import Scenario

__all__ = ["arrivals_sha256", "read_arrivals", "read_embedded_arrivals", "recording_of", "scaled_arrivals"]

_LARGEST_S = 1e9


def recording_of(scenario: Scenario) -> Path | None:
    """The file of recorded arrivals that ``scenario`` names; None where it names none, or one of fairmark's.

    A relative path starts from the folder of the scenario file.
    """
    trace = scenario.arrivals.trace
    embedded = trace is None or trace.startswith("fairmark:")
    return None if trace is None or embedded else Path(scenario.source).parent / trace


def read_arrivals(path: Path) -> tuple[int, ...]:
    """The arrivals of a file, in ns after its first one.

    Empty lines and lines that start with ``#`` are skipped.

    Raises:
        InputError: the file cannot be read, is empty, or a line is not a time at or after the one before.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        accepted = "a text file with one arrival time a line, in seconds"
        raise InputError(f"cannot be read: {error}", source=path, accepted=accepted) from error
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


def read_embedded_arrivals(name: str) -> tuple[int, ...]:
    """The arrivals of a recording that comes with fairmark, in ns after its first one.

    Args:
        name: ``fairmark:NAME``, of a source in `fairmark.samples.source.EMBEDDED` with a column of times.

    Raises:
        InputError: there is no such recording.
    """
    recordings = {f"fairmark:{key}": found for key, found in EMBEDDED.items() if found.arrivals}
    source = recordings.get(name)
    if source is None:
        raise InputError(
            "no embedded recording has this name",
            field="arrivals.trace",
            value=name,
            accepted=", ".join(recordings),
        )
    with source.open_path() as path, path.open(encoding="utf-8", newline="") as stream:
        arrivals = [_stamp_ns(row[source.arrivals]) for row in csv.DictReader(stream)]
    return tuple(arrival - arrivals[0] for arrival in arrivals)


def _stamp_ns(text: str) -> int:
    """``2023-11-16 18:15:46.6805900`` in ns, all digits kept."""
    whole, _, fraction = text.partition(".")
    seconds = int(datetime.fromisoformat(f"{whole}+00:00").timestamp())
    return seconds * 1_000_000_000 + int(fraction.ljust(9, "0"))


def scaled_arrivals(arrivals_ns: Sequence[int], qps: float) -> tuple[int, ...]:
    """The same pattern at another mean rate: all times stretched by one factor, rounded to ns.

    Raises:
        InputError: the recording has no rate: it is one instant.
    """
    if arrivals_ns[-1] <= 0:
        raise InputError("has no rate to scale: all its arrivals are at one time", field="arrivals.trace")
    factor = (len(arrivals_ns) - 1) / (arrivals_ns[-1] / 1e9) / qps
    return tuple(round(arrival * factor) for arrival in arrivals_ns)


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
