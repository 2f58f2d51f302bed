"""A worker's log, read for sealing: reads and events grouped by sample, cookies masked, the rest apart."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from fairmark.evidence.recorded import (
    CHUNK,
    ENDING,
    ENDINGS,
    REASON,
    VIOLATION,
    VIOLATIONS,
    decode_endings,
    encode_ending,
)
from fairmark.evidence.store import DETAIL, HEALTH, HEALTH_NAMES, WIRE, LogReader

__all__ = ["WorkerLog"]

_COOKIE: Final = re.compile(rb"(?i)(?<=\nset-cookie:)[^\r\n]+")


class _BySample:
    """Log records as rows of numbers, found by the sample in their first column."""

    def __init__(self, numbers: array[int], width: int) -> None:
        self.rows: npt.NDArray[np.int64] = np.array(numbers, dtype=np.int64).reshape(-1, width)
        self._order = np.argsort(self.rows[:, 0], kind="stable")
        seqs, firsts = np.unique(self.rows[self._order, 0], return_index=True)
        ends = [*firsts[1:].tolist(), len(self._order)]
        spans = zip(firsts.tolist(), ends[: len(seqs)], strict=True)
        self._span_of = dict(zip(seqs.tolist(), spans, strict=True))

    def of(self, seq: int) -> npt.NDArray[np.int64]:
        """The numbers of the rows of ``seq``, in the order they were written."""
        first, end = self._span_of.get(seq, (0, 0))
        return self._order[first:end]


class WorkerLog:
    """The log of one worker. Reads and events are held as numbers; their bytes stay in the file.

    Attributes:
        health: (time, name, value) of every health figure.
        details: what the driver noted about a failure, by seq.
        reasons: finish reasons of recorded events, by number.
        violations: (time, kind, seq, remark) of every breach of the plugin contract; seq is -1 where the
            query does not exist.
    """

    def __init__(self, stem: Path) -> None:
        self._reader = LogReader(stem)
        self.health: list[tuple[int, str, float]] = []
        self.details: dict[int, str] = {}
        self.reasons: dict[int, str] = {}
        self.violations: list[tuple[int, str, int, str]] = []
        together: list[tuple[int, int, npt.NDArray[np.int32]]] = []
        numbers, events = array("q"), array("q")
        for record in self._reader:
            if record.kind == WIRE:
                numbers.extend((record.seq, record.t_ns, record.segment, record.start, record.size))
            elif record.kind == HEALTH:
                self.health.append((record.t_ns, HEALTH_NAMES[record.seq], self._reader.value(record)))
            elif record.kind == DETAIL:
                self.details[record.seq] = self._reader.data(record).decode("utf-8", "replace")
            elif record.kind in (CHUNK, ENDING):
                events.extend(
                    (record.seq, record.t_ns, record.segment, record.start, record.size, record.kind)
                )
            elif record.kind == ENDINGS:
                counts = decode_endings(self._reader.data(record))
                together.append((record.seq, record.t_ns, counts))
            elif record.kind == REASON:
                self.reasons[record.seq] = self._reader.data(record).decode("utf-8", "replace")
            elif record.kind == VIOLATION:
                payload = self._reader.data(record)
                kind, remark = VIOLATIONS[payload[0]], payload[1:].decode("utf-8", "replace")
                self.violations.append((record.t_ns, kind, record.seq, remark))
        self._by_sample = _BySample(numbers, 5)
        self._events = _BySample(events, 6)
        self._together = sorted(together, key=lambda run: run[:2])
        self._masked: dict[int, bytes] = {}

    @property
    def seq(self) -> npt.NDArray[np.int64]:
        """int64[reads], in the order they arrived: the sample of each read."""
        return self._by_sample.rows[:, 0]

    @property
    def arrival_ns(self) -> npt.NDArray[np.int64]:
        """int64[reads]: when each read arrived."""
        return self._by_sample.rows[:, 1]

    @property
    def size(self) -> npt.NDArray[np.int64]:
        """int64[reads]: bytes of each read."""
        return self._by_sample.rows[:, 4]

    def reads_of(self, seq: int) -> list[tuple[int, bytes]]:
        """Time and bytes of the reads of a sample, as they are going to be stored."""
        numbers = self._by_sample.of(seq)
        rows = self._by_sample.rows[numbers].tolist()
        data = [self._reader.bytes_at(segment, start, size) for _, _, segment, start, size in rows]
        masked = _without_cookies(data)
        if masked is not data:
            self._masked.update(zip(numbers.tolist(), masked, strict=True))
        return [(row[1], stored) for row, stored in zip(rows, masked, strict=True)]

    def events_of(self, seq: int) -> list[tuple[int, int, bytes]]:
        """Kind, time and payload of the recorded events of a sample."""
        rows = self._events.rows[self._events.of(seq)].tolist()
        found = [
            (kind, t_ns, self._reader.bytes_at(segment, start, size))
            for _, t_ns, segment, start, size, kind in rows
        ]
        return found + self._ending_among(seq) if self._together else found

    def _ending_among(self, seq: int) -> list[tuple[int, int, bytes]]:
        """The end of ``seq`` if it was one of several that ended together, as a record of its own."""
        run = bisect_right(self._together, seq, key=lambda run: run[0]) - 1
        first, t_ns, counts = self._together[max(0, run)]
        if not 0 <= seq - first < counts.shape[1]:
            return []
        inputs, outputs = (None if n < 0 else n for n in counts[:, seq - first].tolist())
        return [(ENDING, t_ns, encode_ending((inputs, outputs, None), None, None))]

    def stored(self) -> Iterator[bytes]:
        """The bytes of all reads in the order they arrived; `reads_of` has been called for every sample."""
        for number, (_, _, segment, start, size) in enumerate(self._by_sample.rows.tolist()):
            masked = self._masked.get(number)
            yield self._reader.bytes_at(segment, start, size) if masked is None else masked

    def close(self) -> None:
        """Unmap the log."""
        self._reader.close()


def _without_cookies(reads: list[bytes]) -> list[bytes]:
    """Cookies are secrets: their values become as many ``x``, so that every offset stays what it was."""
    if not any(b"ookie" in data or b"OOKIE" in data for data in reads):
        return reads
    head, separator, body = b"".join(reads).partition(b"\r\n\r\n")
    whole = _COOKIE.sub(lambda value: b"x" * len(value[0]), head) + separator + body
    ends = np.cumsum([len(data) for data in reads]).tolist()
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
