"""A counted phase as the client of another tool would have seen it: requests, and the messages of each.

Every message of a streamed answer is one event in the evidence, of its most telling kind, so that a tool
which times messages can be recomputed from events. Failed queries are here too: many tools count them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from fairmark.evidence.evidence import Evidence
from fairmark.measure.arrow import ABSENT, Flags, Int64s, int64s, kinds, present
from fairmark.measure.phase import Phase, read_phase
from fairmark.measure.terms import Terms

__all__ = ["CHOICES", "LINES", "TOKENS", "Streams", "read_streams"]

TOKENS: Final = ("content", "reasoning", "tool")
"""Kinds of messages that hold generated tokens."""

CHOICES: Final = ("role", *TOKENS, "finish")
"""Kinds of messages whose ``choices`` is not empty."""

LINES: Final = ("role", *TOKENS, "finish", "usage", "end", "error")
"""The kinds of messages; `Streams.line` holds positions in this tuple."""
_CLOSED: Final = ("engine_error", "empty", "cancelled")
_NO_FINISH: Final = "no finish reason"


@dataclass(frozen=True, slots=True)
class Streams:
    """Requests in plan order, and their messages sorted by request and then by arrival; all times in ns.

    ``arrived`` marks answers that came with status 200 and whose HTTP body ended: what a client that asks for
    no finish reason takes for a success. ``row`` is a message's request, ``kind`` masks are by `kinds`.
    """

    phase: Phase
    terms: Terms
    arrived: Flags
    row: Int64s
    arrival: Int64s
    line: Int64s

    def __len__(self) -> int:
        return len(self.phase)

    def of(self, *wanted: str) -> Flags:
        """The messages of the ``wanted`` kinds."""
        numbers = [LINES.index(kind) for kind in wanted]
        return np.isin(self.line, numbers)

    def first(self, *wanted: str) -> Int64s:
        """Arrival of the first message of these kinds, by request; `ABSENT` where there is none."""
        return self._edge(self.of(*wanted), last=False)

    def last(self, *wanted: str) -> Int64s:
        """Arrival of the last message of these kinds, by request; `ABSENT` where there is none."""
        return self._edge(self.of(*wanted), last=True)

    def number(self, *wanted: str) -> Int64s:
        """How many messages of these kinds each request got."""
        counted: Int64s = np.bincount(self.row[self.of(*wanted)], minlength=len(self)).astype(np.int64)
        return counted

    def gaps(self, requests: Flags, *wanted: str) -> Int64s:
        """Gaps between neighbouring messages of these kinds, pooled over the marked ``requests``."""
        kept = self.of(*wanted) & requests[self.row]
        row, arrival = self.row[kept], self.arrival[kept]
        gaps: Int64s = np.diff(arrival)[np.diff(row) == 0]
        return gaps

    def _edge(self, kept: Flags, *, last: bool) -> Int64s:
        found = np.full(len(self), ABSENT, dtype=np.int64)
        row, arrival = self.row[kept], self.arrival[kept]
        if len(row):
            turns = np.flatnonzero(np.diff(row))
            edges = np.append(turns, len(row) - 1) if last else np.concatenate(([0], turns + 1))
            found[row[edges]] = arrival[edges]
        return found


def read_streams(evidence: Evidence, terms: Terms, phase: str) -> Streams:
    """The requests of ``phase``, of a run under ``terms``, and their messages."""
    requests, events = read_phase(evidence.queries, phase), _events(evidence)
    row = _row(int64s(events, "seq"), requests.seq)
    line = np.full(len(row), -1, dtype=np.int64)
    for number, kind in enumerate(LINES):
        line[kinds(events, "kind", kind)] = number
    kept = (row >= 0) & (line >= 0)
    order = np.argsort(row[kept], kind="stable")
    return Streams(
        phase=requests,
        terms=terms,
        arrived=_arrived(requests.table, requests.completed),
        row=row[kept][order],
        arrival=int64s(events, "arrival_ns")[kept][order],
        line=line[kept][order],
    )


def _events(evidence: Evidence) -> pa.Table:
    held = evidence.events
    return held if isinstance(held, pa.Table) else pa.concat_tables(held.parts(("seq", "arrival_ns", "kind")))


def _row(seq: Int64s, requests: Int64s) -> Int64s:
    if not len(requests):
        return np.full(len(seq), -1, dtype=np.int64)
    row = np.minimum(np.searchsorted(requests, seq), len(requests) - 1)
    return np.where(requests[row] == seq, row, -1)


def _arrived(queries: pa.Table, completed: Int64s) -> Flags:
    failures = queries["failure"].cast(pa.string()).to_pylist()
    details = queries["failure_detail"].cast(pa.string()).to_pylist()
    closed = [
        failure is None or failure in _CLOSED or (failure == "truncated" and _NO_FINISH in (detail or ""))
        for failure, detail in zip(failures, details, strict=True)
    ]
    return np.array(closed, dtype=np.bool_) & present(completed)
