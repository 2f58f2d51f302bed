"""The two phases that are bounded by the driver's own time: one query at a time, and a schedule.

Both do what `fairmark.drive.inprocess.phase` does under a `ClosedLoop` of one slot and an `OpenLoop`, in a
loop without a policy: a query is worth a few hundred nanoseconds here, and asking a policy three questions
costs twice as much. What a policy would say is known beforehand, but for the end, and `calm` says when that
cannot be.
"""

from __future__ import annotations

import queue
import sys
from collections.abc import Sequence
from time import monotonic_ns
from typing import Final

from fairmark.drive.inprocess.engine import Engine
from fairmark.drive.inprocess.phase import ThreadedPhase
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import ISSUED
from fairmark.drive.inprocess.waiting import wait_until
from fairmark.drive.orders import PhaseOrders
from fairmark.drive.phase import Share
from fairmark.drive.policy import Limits
from fairmark.samples.sample import Sample

__all__ = ["DrainedPhase", "SchedulePhase", "StreamPhase", "calm", "is_schedule", "is_stream"]

_NEVER: Final = sys.maxsize


def is_stream(orders: PhaseOrders, part: Share) -> bool:
    """Whether single samples follow one another at once, and nothing but `Limits` ends them."""
    return orders.slots == 1 and not orders.think_ns and orders.warmup is None and part.offsets is None


def is_schedule(orders: PhaseOrders, part: Share) -> bool:
    """Whether single samples have a time each, and nothing but times and counts of issued ones ends them."""
    counted = orders.warmup is not None or orders.limits.max_outstanding is not None
    return orders.slots is None and not counted and part.offsets is None


def calm(limits: Limits, issued: int, planned: int) -> tuple[int, int]:
    """A number of units and a time before which `Limits.end` is None, for units after number ``issued``.

    Limits on what is outstanding are not looked at.
    """
    units = planned if limits.max_units is None else min(planned, limits.max_units)
    until_ns = _NEVER if limits.max_duration_ns is None else limits.max_duration_ns + 1
    if limits.min_units is None:
        return units, until_ns
    if issued + 1 < limits.min_units:
        return min(units, limits.min_units), until_ns
    return units, min(until_ns, limits.min_duration_ns)


class StreamPhase(ThreadedPhase):
    """SingleStream: a query is issued when the one before it has ended.

    Args:
        samples: of the phase, in the order they are issued.
    """

    def __init__(
        self, part: Share, limits: Limits, engine: Engine, sink: EventSink, samples: Sequence[Sample]
    ) -> None:
        super().__init__(part, engine, sink)
        self._limits = limits
        self._samples = samples

    def run(self, epoch_ns: int) -> str:
        """Answer one query after the other."""
        answer, total = self._engine.answer_one, len(self._samples)
        issued, state, first = self._sink.stamps.issued, self._sink.state, self._share.first_seq
        units, until_ns = calm(self._limits, 0, total)
        reason = None
        wait_until(epoch_ns, self._stopped)
        for seq, sample in enumerate(self._samples, first):
            if self._forced is not None:
                break
            now = monotonic_ns()
            issued[seq] = now
            state[seq] = ISSUED
            self.issued = count = seq - first + 1
            self.answering = seq
            answer(seq, sample)
            if count >= units or now - epoch_ns >= until_ns:
                reason = self._limits.end(count, total, now - epoch_ns)
                if reason:
                    break
                units, until_ns = calm(self._limits, count, total)
        self.answering = -1
        self.stopped_ns = monotonic_ns()
        self._engine.flush()
        reason = self._forced or reason
        assert reason is not None
        return reason


class DrainedPhase(ThreadedPhase):
    """A schedule: queries are handed over without a look at those before them."""

    def _drain(self) -> None:
        """Nobody is told of ends while there is a schedule to keep; what has not ended yet is waited for."""
        outcome, first = self._sink.stamps.outcome, self._share.first_seq
        ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._sink.finished = ended.put
        for seq in range(first, first + self.issued):
            while not outcome[seq]:
                ended.get()
        self._sink.finished = None


class SchedulePhase(DrainedPhase):
    """Server: a query is issued at its time, whatever the system does.

    Args:
        samples: of the phase, in the order they are issued.
    """

    def __init__(
        self, part: Share, limits: Limits, engine: Engine, sink: EventSink, samples: Sequence[Sample]
    ) -> None:
        super().__init__(part, engine, sink)
        self._limits = limits
        self._samples = samples

    def run(self, epoch_ns: int) -> str:
        """Issue all that is due, flush, and wait for what is in flight."""
        reason = self._issue_all(epoch_ns)
        self.stopped_ns = monotonic_ns()
        self._engine.flush()
        self._drain()
        reason = self._forced or reason
        assert reason is not None
        return reason

    def _issue_all(self, epoch_ns: int) -> str | None:
        hand, total, due_ns = self._engine.hand_one, len(self._samples), self._share.due_ns
        issued, state, first = self._sink.stamps.issued, self._sink.state, self._share.first_seq
        units, until_ns = calm(self._limits, 0, total)
        for seq, (sample, due) in enumerate(zip(self._samples, due_ns, strict=True), first):
            if not wait_until(epoch_ns + due, self._stopped):
                return None
            now = monotonic_ns()
            issued[seq] = now
            state[seq] = ISSUED
            hand(seq, sample)
            self.issued = count = seq - first + 1
            if count >= units or now - epoch_ns >= until_ns:
                reason = self._limits.end(count, total, now - epoch_ns)
                if reason:
                    return reason
                units, until_ns = calm(self._limits, count, total)
        return None
