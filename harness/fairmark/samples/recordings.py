"""Recordings of real services that come with fairmark: how long their requests and answers were."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from fairmark.samples.source import EMBEDDED

__all__ = ["Lengths", "recorded_lengths"]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of each recorded request and of its answer, in the order of arrival."""

    input_tokens: Sequence[int]
    output_tokens: Sequence[int]


@cache
def recorded_lengths(name: str) -> Lengths | None:
    """The lengths of the recording ``fairmark:NAME``; None if there is none of this name."""
    source = EMBEDDED.get(name.removeprefix("fairmark:"))
    if source is None or source.lengths is None or not name.startswith("fairmark:"):
        return None
    with source.open_path() as path, path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    inputs, outputs = ([int(row[column]) for row in rows] for column in source.lengths)
    return Lengths(inputs, outputs)
