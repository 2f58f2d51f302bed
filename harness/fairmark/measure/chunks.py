"""The token-bearing events of a phase's successes, and the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import ABSENT, Flags, Int64s, int64s, kinds, present
from fairmark.measure.phase import Phase

__all__ = ["Chunks", "read_chunks"]

_TOKEN_KINDS: Final = ("content", "reasoning", "tool")


@dataclass(frozen=True, slots=True)
class Chunks:
    """One entry per token-bearing event, sorted by sample and then by arrival.

    ``row`` is the position of the sample in the `Phase`; ``n_tokens`` is `ABSENT` where the wire does
    not say. ``visible`` marks content; ``follows`` marks events that have a predecessor in the same response.
    """

    row: Int64s
    arrival: Int64s
    n_tokens: Int64s
    visible: Flags
    follows: Flags

    def __len__(self) -> int:
        return len(self.row)

    def gaps(self) -> Int64s:
        """Time from each token-bearing event to the next one of the same response."""
        gaps: Int64s = np.diff(self.arrival, prepend=0)[self.follows]
        return gaps

    def first_visible(self, samples: int) -> Int64s:
        """Arrival of the first content event of each of ``samples`` rows, `ABSENT` where there is none."""
        return _first(self.row[self.visible], self.arrival[self.visible], samples)

    def first_tokens(self, samples: int) -> Int64s:
        """Tokens in the first event of each of ``samples`` rows, `ABSENT` where unknown."""
        return _first(self.row, self.n_tokens, samples)

    def longest_gap(self) -> Int64s:
        """The longest gap of each response that has at least two events, in plan order."""
        gaps, rows = self.gaps(), self.row[self.follows]
        if not len(gaps):
            return gaps
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        longest: Int64s = np.maximum.reduceat(gaps, starts)
        return longest

    def token_sums(self, samples: int) -> Int64s:
        """Tokens over all events of each of ``samples`` rows; `ABSENT` where any event does not say."""
        known = present(self.n_tokens)
        sums = np.bincount(self.row[known], weights=self.n_tokens[known], minlength=samples).astype(np.int64)
        events = np.bincount(self.row, minlength=samples)
        told = np.bincount(self.row[known], minlength=samples)
        return np.where((events > 0) & (told == events), sums, ABSENT)


def _first(rows: Int64s, values: Int64s, samples: int) -> Int64s:
    """The first of ``values`` for each of the ``rows``, which are sorted."""
    found = np.full(samples, ABSENT, dtype=np.int64)
    position = np.flatnonzero(np.diff(rows, prepend=-1))
    found[rows[position]] = values[position]
    return found


def read_chunks(events: pa.Table, phase: Phase) -> Chunks:
    """The token-bearing events of the successes of ``phase``."""
    row = _rows(int64s(events, "seq"), phase)
    wanted = kinds(events, "kind", *_TOKEN_KINDS) & (row >= 0)
    row, arrival = row[wanted], int64s(events, "arrival_ns")[wanted]
    n_tokens, visible = int64s(events, "n_tokens")[wanted], kinds(events, "kind", "content")[wanted]
    step = np.diff(row)
    if not ((step > 0) | ((step == 0) & (np.diff(arrival) >= 0))).all():
        order = np.lexsort((arrival, row))
        row, arrival, n_tokens, visible = row[order], arrival[order], n_tokens[order], visible[order]
    return Chunks(row, arrival, n_tokens, visible, follows=np.diff(row, prepend=-1) == 0)


def _rows(seq: Int64s, phase: Phase) -> Int64s:
    """Position in ``phase`` of the success that each event belongs to; -1 where there is none."""
    if not len(phase):
        return np.full(len(seq), -1, dtype=np.int64)
    row = np.minimum(np.searchsorted(phase.seq, seq), len(phase) - 1)
    return np.where((phase.seq[row] == seq) & phase.ok[row], row, -1)
