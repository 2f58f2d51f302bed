"""One phase, driven by threads: the policy decides, this thread paces and hands over, others may answer.

The counterpart of `fairmark.drive.phase` for systems without an event loop. Where one query is in flight at
a time it is answered in this thread, without a hop to another one.
"""

from __future__ import annotations

import queue
from abc import ABC, abstractmethod
from time import monotonic_ns
from typing import Protocol

from fairmark.drive.inprocess.engine import Engine
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.waiting import wait_until
from fairmark.drive.phase import Share
from fairmark.drive.policy import Limits, Policy
from fairmark.sut.api import QueryBlock

__all__ = ["Phase", "SlicePhase", "SolePhase", "ThreadPhase", "ThreadedPhase"]

_WAKE = -1


class Phase(Protocol):
    """What the watch over a phase needs of it, from a thread of its own."""

    @property
    def issued(self) -> int:
        """Samples so far; they are the first of the phase."""

    @property
    def stopped_ns(self) -> int:
        """When the last one was issued; 0 while more may come."""

    @property
    def answering(self) -> int:
        """The sample that is being answered in the issuing thread, else -1."""

    def stop(self, reason: str) -> None:
        """Issue nothing more; what is in flight may still end."""

    def give_up(self, seq: int, now: int, kind: str) -> None:
        """End ``seq`` as a failure of ``kind`` unless it has ended."""


class ThreadedPhase(ABC):
    """What the phases below have in common."""

    def __init__(self, part: Share, engine: Engine, sink: EventSink) -> None:
        self._share = part
        self._engine = engine
        self._sink = sink
        self._forced: str | None = None
        self.issued = 0
        self.stopped_ns = 0
        self.answering = -1

    @abstractmethod
    def run(self, epoch_ns: int) -> str:
        """Start at ``epoch_ns`` and return, once drained, why the phase ended."""

    def stop(self, reason: str) -> None:
        """Issue nothing more."""
        self._forced = self._forced or reason

    def give_up(self, seq: int, now: int, kind: str) -> None:
        """End ``seq``; its completion is noticed like any other."""
        self._sink.give_up(seq, now, kind)

    def _stopped(self) -> bool:
        return self._forced is not None

    def _issue(self, seqs: range, now: int) -> None:
        issue = self._sink.issue
        for seq in seqs:
            issue(seq, now)
        self.issued += len(seqs)


class ThreadPhase(ThreadedPhase):
    """Any number of queries in flight, answered by other threads."""

    def __init__(self, part: Share, policy: Policy, engine: Engine, sink: EventSink) -> None:
        super().__init__(part, engine, sink)
        self._policy = policy
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._in_flight = 0
        self._epoch_ns = 0
        self._units: dict[int, list[int]] = {}

    def stop(self, reason: str) -> None:
        """Issue nothing more; wakes the issuing thread."""
        super().stop(reason)
        self._ended.put(_WAKE)

    def run(self, epoch_ns: int) -> str:
        """Issue all that is due, flush, and wait for what is in flight."""
        self._epoch_ns = epoch_ns
        self._sink.finished = self._ended.put
        wait_until(epoch_ns, self._stopped)
        while self._forced is None and self._policy.ended is None:
            self._turn()
        self.stopped_ns = monotonic_ns()
        self._engine.flush()
        while self._in_flight:
            self._take(self._ended.get())
        self._sink.finished = None
        reason = self._forced or self._policy.ended
        assert reason is not None
        return reason

    def _turn(self) -> None:
        """Issue the next unit, or wait for what it depends on."""
        policy = self._policy
        if self._collect():
            return
        due_ns = policy.due_ns()
        if due_ns is None:
            self._take(self._ended.get())
        # What ended during the wait is no longer outstanding.
        elif wait_until(self._epoch_ns + due_ns, self._stopped) and not self._collect():
            now = monotonic_ns()
            seqs = self._share.seqs(policy.issue(now - self._epoch_ns))
            if self._share.offsets is not None:
                unit = [len(seqs), 0]
                self._units.update(dict.fromkeys(seqs, unit))
            self._in_flight += len(seqs)
            self._issue(seqs, now)
            self._engine.hand(seqs)

    def _collect(self) -> bool:
        """Take what has ended; returns whether that ended the phase."""
        while not self._ended.empty():
            self._take(self._ended.get())
        return self._policy.ended is not None

    def _take(self, seq: int) -> None:
        """A sample ended; a query of several ends with its last one."""
        if seq == _WAKE:
            return
        self._in_flight -= 1
        stamps = self._sink.stamps
        now = stamps.completed[seq]
        service_ns = now - stamps.sent[seq]
        unit = self._units.pop(seq, None)
        if unit is not None:
            unit[0] -= 1
            service_ns = unit[1] = max(unit[1], service_ns)
            if unit[0]:
                return
        self._policy.completed(now - self._epoch_ns, service_ns)


class SolePhase(ThreadedPhase):
    """One query in flight at a time, answered in this thread."""

    def __init__(self, part: Share, policy: Policy, engine: Engine, sink: EventSink) -> None:
        super().__init__(part, engine, sink)
        self._policy = policy

    def run(self, epoch_ns: int) -> str:
        """Answer one query after the other."""
        policy, part, answer = self._policy, self._share, self._engine.answer
        completed = self._sink.stamps.completed
        wait_until(epoch_ns, self._stopped)
        while self._forced is None and policy.ended is None:
            due_ns = policy.due_ns()
            assert due_ns is not None, "a slot was given back, so that its next unit has a time"
            now = monotonic_ns()
            if now - epoch_ns < due_ns:
                if not wait_until(epoch_ns + due_ns, self._stopped):
                    break
                now = monotonic_ns()
            seqs = part.seqs(policy.issue(now - epoch_ns))
            self.answering = seqs[0]
            self._issue(seqs, now)
            answer(seqs)
            end_ns = completed[seqs[0]] if len(seqs) == 1 else max(completed[seqs[0] : seqs[-1] + 1])
            policy.completed(end_ns - epoch_ns, end_ns - now)
        self.answering = -1
        self.stopped_ns = monotonic_ns()
        self._engine.flush()
        reason = self._forced or policy.ended
        assert reason is not None
        return reason


class SlicePhase(ThreadedPhase):
    """The one query of Offline, answered in this thread in slices as large as the engine takes.

    Args:
        content: its samples; a slice is handed over as arrays.
    """

    def __init__(
        self, part: Share, limits: Limits, engine: Engine, sink: EventSink, content: QueryBlock
    ) -> None:
        super().__init__(part, engine, sink)
        self._limits = limits
        self._content = content

    def run(self, epoch_ns: int) -> str:
        """Answer slice after slice; the limits are tested after each."""
        total, first_seq, ended = self._share.units, self._share.first_seq, None
        wait_until(epoch_ns, self._stopped)
        while self._forced is None and ended is None:
            now = monotonic_ns()
            start, end = self.issued, min(self.issued + self._engine.at_once, total)
            self.answering = first_seq + start
            self._sink.issue_run(range(first_seq + start, first_seq + end), now)
            self.issued = end
            ended = self._limits.end(end, total, now - epoch_ns)
            if ended:
                self.stopped_ns = now
                self._engine.flush()
            self._engine.answer_block(self._content[start:end])
        self.answering = -1
        self.stopped_ns = self.stopped_ns or monotonic_ns()
        reason = self._forced or ended
        assert reason is not None
        return reason
