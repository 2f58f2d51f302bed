"""The thread that watches a worker: signs of life, the wish to stop, time-outs, health.

It never waits for the system under test, so that a hung one cannot keep the run from being closed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from time import monotonic_ns
from typing import Final

import numpy as np

from fairmark.drive.health import Health
from fairmark.drive.inprocess.phase import Phase
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import BEGUN, ENDED
from fairmark.drive.orders import Orders
from fairmark.evidence.control import Control, WorkerBlock
from fairmark.evidence.recorded import ENDS
from fairmark.evidence.store import DiskFullError

__all__ = ["Watch"]

_TICK_NS: Final = 20_000_000
_COMPLETE: Final = ENDS.index("complete")
_GRACE_NS: Final = 3_000_000_000
"""From giving everything up to giving up on the system itself."""


class _Flight:
    """The samples of a phase, from its first one that has not ended; all before it are counted."""

    def __init__(self, sink: EventSink, phase: Phase, first_seq: int, samples: int) -> None:
        self._state = np.frombuffer(sink.state, dtype=np.uint8)
        self._outcome = np.frombuffer(sink.stamps.outcome, dtype=np.int64)
        self._end = first_seq + samples
        self.phase = phase
        self.first_seq = first_seq
        self.oldest = first_seq
        self._completed_before = 0

    def advance(self) -> tuple[int, int]:
        """Move on over what has ended; completed and failed samples so far."""
        issued = min(self.first_seq + self.phase.issued, self._end)
        ended = self._state[self.oldest : issued] >= ENDED
        step = len(ended) if ended.all() else int(np.argmin(ended))
        passed = self._outcome[self.oldest : self.oldest + step]
        # The outcome comes after the state: what is between the two counts next time.
        if step and not passed.all():
            step = int(np.argmin(passed != 0))
            passed = passed[:step]
        self._completed_before += int((passed == _COMPLETE).sum())
        self.oldest += step
        rest = self._outcome[self.oldest : issued]
        completed = int(np.count_nonzero(rest == _COMPLETE))
        failed = self.oldest - self.first_seq - self._completed_before
        failed += int(np.count_nonzero(rest)) - completed
        return self._completed_before + completed, failed

    @property
    def in_flight(self) -> bool:
        """Whether anything had not ended when `advance` looked."""
        return self.oldest < min(self.first_seq + self.phase.issued, self._end)

    def open_seqs(self) -> list[int]:
        """Issued samples that have not ended, in the order they were issued."""
        issued = min(self.first_seq + self.phase.issued, self._end)
        state = self._state[self.oldest : issued]
        return (np.flatnonzero((state > 0) & (state < ENDED)) + self.oldest).tolist()


class Watch(threading.Thread):
    """Looks every 20 ms, from its start to the end of the process.

    Args:
        health: its beats are those of this thread; a late one shows who held the interpreter lock.
        abandon: called from this thread with a reason and a detail when the system does not come back.

    Attributes:
        fatal: why the run must end at once; set from any thread.
    """

    def __init__(
        self,
        control: Control,
        block: WorkerBlock,
        orders: Orders,
        sink: EventSink,
        health: Health,
        abandon: Callable[[str, str], None],
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._control = control
        self._block = block
        self._orders = orders
        self._sink = sink
        self._health = health
        self._abandon = abandon
        self._flight: _Flight | None = None
        self._number = 0
        self._aborted_ns = 0
        self._looking = threading.Lock()
        self.fatal: str | None = None

    def begin(self, number: int, phase: Phase, first_seq: int, samples: int) -> None:
        """Watch over ``phase`` from now on."""
        with self._looking:
            self._number = number
            self._flight = _Flight(self._sink, phase, first_seq, samples)
            self._health.start()

    def end(self) -> None:
        """The phase is drained."""
        with self._looking:
            if self._flight is not None:
                self._beat(self._flight, monotonic_ns())
                self._keep(self._health.stop)
            self._flight = None

    def orphaned(self) -> bool:
        """Whether the coordinator is gone."""
        return os.getppid() != self._orders.coordinator

    def stop_reason(self) -> str:
        """Why the run is to stop, once it is."""
        return self.fatal or self._control.stop_reason or "terminated"

    def run(self) -> None:
        """Look until the process ends."""
        due_ns = monotonic_ns()
        while True:
            due_ns += _TICK_NS
            time.sleep(max(0, due_ns - monotonic_ns()) / 1e9)
            now = monotonic_ns()
            with self._looking:
                self._look(now, now - due_ns)
            due_ns = max(due_ns, now - _TICK_NS)

    def _look(self, now: int, late_ns: int) -> None:
        flight = self._flight
        if flight is None:
            self._block.beat(now, 0, 0, 0, 0)
            if self.orphaned() or self._control.stop_level >= 2:
                self._lose_patience(now, "the system did not come back while nothing was asked of it")
            return
        self._beat(flight, now)
        self._heed_stop(flight, now)
        self._sweep(flight, now)
        self._check_answering(flight, now)
        self._keep(partial(self._health.stalled, now, late_ns))
        self._keep(partial(self._health.sample, now))

    def _keep(self, health: Callable[[], None]) -> None:
        """Have figures written; if the log takes no more, the run is over."""
        try:
            health()
        except (DiskFullError, OSError) as error:
            self.fatal = self.fatal or ("disk_full" if isinstance(error, DiskFullError) else "worker_died")

    def _beat(self, flight: _Flight, now: int) -> None:
        completed, failed = flight.advance()
        self._block.beat(now, flight.phase.issued, completed, failed, 0)
        if flight.phase.stopped_ns:
            self._block.mark_sent_all(self._number)

    def _heed_stop(self, flight: _Flight, now: int) -> None:
        level = self._control.stop_level
        if self.fatal or level >= 2 or self.orphaned():
            self._abort(flight, now, self.stop_reason())
        elif level == 1:
            flight.phase.stop(self.stop_reason())

    def _abort(self, flight: _Flight, now: int, reason: str) -> None:
        flight.phase.stop(reason)
        for seq in flight.open_seqs():
            flight.phase.give_up(seq, now, "aborted")
        self._lose_patience(now, f"the system did not come back after the run was ended ({reason})", reason)

    def _lose_patience(self, now: int, detail: str, reason: str | None = None) -> None:
        self._aborted_ns = self._aborted_ns or now
        if now - self._aborted_ns > _GRACE_NS:
            self._abandon(reason or self.stop_reason(), detail)

    def _sweep(self, flight: _Flight, now: int) -> None:
        """Time-outs of queries and of the drain."""
        issued, state, timeout_ns = self._sink.stamps.issued, self._sink.state, self._orders.timeout_ns
        # The oldest tells for all: they were issued in order.
        overdue = flight.in_flight and issued[flight.oldest] + timeout_ns <= now
        for seq in flight.open_seqs() if overdue else ():
            if issued[seq] + timeout_ns > now:
                break
            flight.phase.give_up(seq, now, "stalled" if state[seq] == BEGUN else "timeout")
            if issued[seq] + timeout_ns + self._orders.drain_ns <= now:
                # A system that blocks the event loop keeps it from giving up on anything.
                self._abandon("sut_failed", "the system did not let go of the event loop")
        stopped_ns = flight.phase.stopped_ns
        if stopped_ns and now - stopped_ns > self._orders.drain_ns:
            self._abort(flight, now, "drain_timeout")

    def _check_answering(self, flight: _Flight, now: int) -> None:
        """A system that answers in the issuing thread and does not return keeps the run from going on."""
        seq = flight.phase.answering
        if seq < 0 or self._sink.state[seq] <= ENDED:
            return
        if now - self._sink.stamps.completed[seq] > self._orders.drain_ns:
            detail = "the system did not return from a query that had timed out"
            flight.phase.stop("sut_failed")
            self._abandon("sut_failed", detail)
