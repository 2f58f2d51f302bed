"""The token-bearing events of a phase's successes: what is measured per response, and the gaps between them.

There may be a hundred events for each query, so they are read a part at a time and summed up per sample;
only the gaps are kept one by one, because percentiles are of exact values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairmark.evidence.tables import TableFile
from fairmark.measure.arrow import ABSENT, Flags, Int64s, int64s, kinds, present
from fairmark.measure.phase import Phase

__all__ = ["Chunks", "read_chunks"]

Int32s: TypeAlias = npt.NDArray[np.int32]

_TOKEN_KINDS: Final = ("content", "reasoning", "tool")
_COLUMNS: Final = ("seq", "arrival_ns", "kind", "n_tokens")
_UNTOLD: Final = -1
"""Stands for a token count that the wire does not tell."""


class _UnorderedError(Exception):
    """The events are not grouped by sample in plan order, or not in order of arrival."""


class Chunks:
    """Figures of each sample of a `Phase` (one entry per sample, `ABSENT` where there is none), and all gaps.

    Attributes:
        gaps: ns from each token-bearing event to the next one of the same response, in plan order.
        gap_tokens: tokens of the event that each gap ends with, below 0 where the wire does not say; None
            where each holds one.
        first_visible: arrival of the first content event.
        first_tokens: tokens in the first event.
        longest_gap: ns.
        token_sums: tokens over all events; `ABSENT` where any event does not say.
    """

    def __init__(self, samples: int, events: int) -> None:
        """For ``samples`` and at most so many ``events``."""
        self._count = self._gap_count = 0
        self._gaps = np.empty(events, dtype=np.int64)
        self._gap_tokens: Int32s | None = None
        self._last_row, self._last_arrival = -1, 0
        self._untold = np.zeros(samples, dtype=np.bool_)
        self.first_visible = np.full(samples, ABSENT, dtype=np.int64)
        self.first_tokens = np.full(samples, ABSENT, dtype=np.int64)
        self.longest_gap = np.full(samples, ABSENT, dtype=np.int64)
        self._sums = np.full(samples, ABSENT, dtype=np.int64)

    def __len__(self) -> int:
        return self._count

    @property
    def gaps(self) -> Int64s:
        """See the class."""
        return self._gaps[: self._gap_count]

    @property
    def gap_tokens(self) -> Int32s | None:
        """See the class."""
        return None if self._gap_tokens is None else self._gap_tokens[: self._gap_count]

    @property
    def token_sums(self) -> Int64s:
        """See the class."""
        return np.where(self._untold, ABSENT, self._sums)

    def add(self, row: Int64s, arrival: Int64s, n_tokens: Int64s, visible: Flags) -> None:
        """Take the next events: their sample's position in the phase, stamp, tokens, and whether content.

        Raises:
            _UnorderedError: they do not go on in order.
        """
        if not len(row):
            return
        step, gap = np.empty_like(row), np.empty_like(arrival)
        np.subtract(row[1:], row[:-1], out=step[1:])
        np.subtract(arrival[1:], arrival[:-1], out=gap[1:])
        step[0], gap[0] = row[0] - self._last_row, arrival[0] - self._last_arrival
        follows = step == 0
        gaps = gap[follows]
        if int(step.min()) < 0 or (len(gaps) and int(gaps.min()) < 0):
            raise _UnorderedError
        begun = bool(follows[0])
        starts = np.flatnonzero(~follows)
        gap[starts] = ABSENT
        if begun:
            starts = np.concatenate([[0], starts])
        self._sum_up(row, n_tokens, gap, starts, begun=begun)
        shown = starts if visible.all() else visible
        _put_first(self.first_visible, row[shown], arrival[shown])
        self._keep_gaps(gaps, n_tokens[follows])
        self._last_row, self._last_arrival = int(row[-1]), int(arrival[-1])
        self._count += len(row)

    def _sum_up(self, row: Int64s, n_tokens: Int64s, gap: Int64s, starts: Int64s, *, begun: bool) -> None:
        """Per response, at ``starts``; ``begun``: the first one began in the part before."""
        rows, told = row[starts], present(n_tokens)
        fresh = starts[1:] if begun else starts
        self.first_tokens[row[fresh]] = n_tokens[fresh]
        self.longest_gap[rows] = np.maximum(self.longest_gap[rows], np.maximum.reduceat(gap, starts))
        before = np.where(present(self._sums[rows]), self._sums[rows], 0)
        if not told.all():
            self._untold[rows] |= np.logical_or.reduceat(~told, starts)
            n_tokens = np.where(told, n_tokens, 0)
        self._sums[rows] = before + np.add.reduceat(n_tokens, starts)

    def _keep_gaps(self, gaps: Int64s, tokens: Int64s) -> None:
        end = self._gap_count + len(gaps)
        self._gaps[self._gap_count : end] = gaps
        if self._gap_tokens is None and (tokens != 1).any():
            self._gap_tokens = np.ones(len(self._gaps), dtype=np.int32)
        if self._gap_tokens is not None:
            self._gap_tokens[self._gap_count : end] = np.maximum(tokens, _UNTOLD)
        self._gap_count = end


def _put_first(first: Int64s, rows: Int64s, values: Int64s) -> None:
    """Set ``first`` to the first of ``values`` for each of the ascending ``rows`` that has none yet."""
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    rows, values = rows[starts], values[starts]
    fresh = ~present(first[rows])
    first[rows[fresh]] = values[fresh]


def read_chunks(events: pa.Table | TableFile, phase: Phase) -> Chunks:
    """The token-bearing events of the successes of ``phase``.

    Evidence groups events by sample, in plan order; tables in another order are sorted first, in memory.
    """
    chunks = Chunks(len(phase), len(events))
    try:
        for part in _parts(events):
            chunks.add(*_chosen(part, phase))
    except _UnorderedError:
        whole = pa.concat_tables(_parts(events))
        row, arrival, n_tokens, visible = _chosen(whole, phase)
        order = np.lexsort((arrival, row))
        chunks = Chunks(len(phase), len(row))
        chunks.add(row[order], arrival[order], n_tokens[order], visible[order])
    return chunks


def _parts(events: pa.Table | TableFile) -> Iterator[pa.Table]:
    return iter([events]) if isinstance(events, pa.Table) else events.parts(_COLUMNS)


def _chosen(part: pa.Table, phase: Phase) -> tuple[Int64s, Int64s, Int64s, Flags]:
    row = _rows(int64s(part, "seq"), phase)
    arrival, n_tokens = int64s(part, "arrival_ns"), int64s(part, "n_tokens")
    visible = kinds(part, "kind", "content")
    wanted = kinds(part, "kind", *_TOKEN_KINDS) & (row >= 0)
    if wanted.all():
        return row, arrival, n_tokens, visible
    return row[wanted], arrival[wanted], n_tokens[wanted], visible[wanted]


def _rows(seq: Int64s, phase: Phase) -> Int64s:
    """Position in ``phase`` of the success that each event belongs to; -1 where there is none.

    Looked up once for each run of equal ``seq``.
    """
    if not len(phase) or not len(seq):
        return np.full(len(seq), -1, dtype=np.int64)
    starts = np.concatenate([[0], np.flatnonzero(seq[1:] != seq[:-1]) + 1])
    own = seq[starts]
    row = np.minimum(np.searchsorted(phase.seq, own), len(phase) - 1)
    row = np.where((phase.seq[row] == own) & phase.ok[row], row, -1)
    return np.repeat(row, np.diff(starts, append=len(seq)))
