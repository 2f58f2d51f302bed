"""The issued samples of one counted phase, as arrays in plan order, and the time between their stamps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import ABSENT, Flags, Int64s, int64s, kinds, marked, present, select

__all__ = ["Phase", "elapsed", "of_phase", "read_phase"]


def elapsed(start: Int64s, end: Int64s) -> Int64s:
    """``end - start`` in ns where both stamps exist, else `ABSENT`."""
    return np.where(present(start) & present(end), end - np.where(present(start), start, 0), ABSENT)


@dataclass(frozen=True, slots=True)
class Phase:
    """Samples that were issued in one phase, sorted by ``seq``; all arrays have one entry per sample.

    ``scheduled`` equals ``issued`` where the evidence holds null (closed loops). ``ok`` marks successes: no
    failure and a completion. ``table`` is the same rows with all evidence columns.
    """

    name: str
    table: pa.Table
    seq: Int64s
    query: Int64s
    sample_index: Int64s
    worker: Int64s
    scheduled: Int64s
    issued: Int64s
    sent: Int64s
    first_byte: Int64s
    first_token: Int64s
    last_token: Int64s
    completed: Int64s
    input_tokens: Int64s
    output_tokens: Int64s
    cached_tokens: Int64s
    ok: Flags

    def __len__(self) -> int:
        return len(self.seq)

    @property
    def start_ns(self) -> int:
        """When the clock of this phase starts: the first scheduled time."""
        return int(self.scheduled.min())

    @property
    def done(self) -> Int64s:
        """When each sample left: its completion, or the end of the phase if it never ended."""
        ended = present(self.completed)
        last = int(self.completed[ended].max()) if ended.any() else int(self.issued.max())
        return np.where(ended, self.completed, max(last, int(self.issued.max())))

    def out_of_order(self) -> Flags:
        """Where a later stamp lies before an earlier one, from the scheduled time to the completion."""
        latest, wrong = self.scheduled, np.zeros(len(self), dtype=np.bool_)
        stamps = (self.issued, self.sent, self.first_byte, self.first_token, self.last_token, self.completed)
        for stamp in stamps:
            there = present(stamp)
            wrong |= there & (stamp < latest)
            latest = np.where(there, np.maximum(stamp, latest), latest)
        return wrong

    def tpot(self) -> Int64s:
        """(completed - first token) // (n - 1) in ns: LoadGen's TPOT (logging.cc:475-476); needs n >= 2."""
        n = self.output_tokens
        usable = self.ok & (n >= 2) & present(self.first_token) & present(self.completed)
        return np.where(
            usable, elapsed(self.first_token, self.completed) // np.where(n >= 2, n - 1, 1), ABSENT
        )


def of_phase(content: pa.Table, name: str) -> pa.Table:
    """The rows of an evidence table that belong to the phase ``name``."""
    return select(content, kinds(content, "phase", name))


def read_phase(queries: pa.Table, name: str) -> Phase:
    """The issued samples of the phase ``name``, from the evidence table ``queries``."""
    rows = of_phase(queries, name)
    rows = select(rows, marked(rows, "issued_ns")).sort_by("seq")
    issued = int64s(rows, "issued_ns")
    scheduled = int64s(rows, "scheduled_ns")
    completed = int64s(rows, "completed_ns")
    return Phase(
        name=name,
        table=rows,
        seq=int64s(rows, "seq"),
        query=int64s(rows, "query"),
        sample_index=int64s(rows, "sample_index"),
        worker=int64s(rows, "worker"),
        scheduled=np.where(present(scheduled), scheduled, issued),
        issued=issued,
        sent=int64s(rows, "sent_ns"),
        first_byte=int64s(rows, "first_byte_ns"),
        first_token=int64s(rows, "first_token_ns"),
        last_token=int64s(rows, "last_token_ns"),
        completed=completed,
        input_tokens=int64s(rows, "input_tokens"),
        output_tokens=int64s(rows, "output_tokens"),
        cached_tokens=int64s(rows, "cached_tokens"),
        ok=present(completed) & ~marked(rows, "failure"),
    )
