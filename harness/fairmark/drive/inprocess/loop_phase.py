"""One phase of an `AsyncSUT`: its queries are tasks on this thread's event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final

from fairmark.drive.inprocess.engine import SampleOf
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import ENDED, GIVEN_UP
from fairmark.drive.pacing import PacerName
from fairmark.drive.phase import PhaseLoop, Share
from fairmark.drive.policy import Policy
from fairmark.evidence.recorded import ENDS
from fairmark.evidence.store import Stamps
from fairmark.sut.api import AsyncSUT, Event

__all__ = ["LoopPhase", "TaskSender"]

_COMPLETE: Final = ENDS.index("complete")


class TaskSender:
    """Makes a task of every query.

    Attributes:
        in_flight: the task of every query that has not ended.
    """

    refusals = 0
    refused_since_ns = 0

    def __init__(self, sut: AsyncSUT, sink: EventSink, sample_of: SampleOf) -> None:
        self._generate: Callable[..., AsyncIterator[Event]] = sut.generate
        self._sink = sink
        self._sample_of = sample_of
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self.in_flight: dict[int, asyncio.Task[None]] = {}
        self.finished: Callable[[int, int, bool], None] = _nobody
        sink.finished = self._ended

    @property
    def stamps(self) -> Stamps:
        """The columns of the sink."""
        return self._sink.stamps

    def send(self, seq: int, now: int) -> None:
        """Start the task of ``seq``."""
        self._sink.issue(seq, now)
        task = self._loop.create_task(self._consume(seq))
        self.in_flight[seq] = task
        # Tasks may outlive their queries: a generator has a right to its last lines.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def give_up(self, seq: int, now: int, kind: str) -> None:
        """End ``seq`` and cancel its task."""
        task = self.in_flight.get(seq)
        if self._sink.give_up(seq, now, kind) and task is not None:
            task.cancel()

    def sweep(self, now: int) -> None:
        """The watch over the phase does this."""

    def refill(self, now: int) -> None:
        """There are no connections."""

    def abort(self, now: int) -> None:
        """End everything in flight as aborted."""
        for seq in list(self.in_flight):
            self.give_up(seq, now, "aborted")

    async def rest(self) -> None:
        """Let tasks whose queries have ended come to their own end; those that do not are cancelled."""
        self._sink.finished = None
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=1.0)
            for task in late:
                task.cancel()

    async def _consume(self, seq: int) -> None:
        sink, state = self._sink, self._sink.state
        event = sink.event
        try:
            async for value in self._generate(self._sample_of(seq)):
                ended = state[seq] >= ENDED
                event(seq, value)
                if ended:
                    break
        except asyncio.CancelledError as error:
            # Only what the driver gave up on is cancelled by it; otherwise the engine cancelled itself.
            if state[seq] != GIVEN_UP:
                sink.raised(seq, error)
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            sink.raised(seq, error)
        if state[seq] < ENDED:
            sink.no_end(seq)

    def _ended(self, seq: int) -> None:
        """The sink's callback, in the thread of the loop."""
        self.in_flight.pop(seq, None)
        stamps = self._sink.stamps
        self.finished(seq, stamps.completed[seq], stamps.outcome[seq] == _COMPLETE)


class LoopPhase:
    """A phase on an event loop, which its `run` starts from and returns to.

    The other methods are called from the thread that watches.
    """

    def __init__(
        self,
        part: Share,
        policy: Policy,
        sender: TaskSender,
        flush: Callable[[], None],
        pacer: PacerName | None,
    ) -> None:
        self._sender = sender
        self._inner = PhaseLoop(part, policy, sender, pacer=pacer, sent_last=flush)
        self._loop = asyncio.get_running_loop()
        self._given_up: set[int] = set()
        self.pacer_name = self._inner.pacer_name
        self.answering = -1

    @property
    def issued(self) -> int:
        """Samples so far."""
        return self._inner.issued

    @property
    def stopped_ns(self) -> int:
        """When the last one was issued; 0 while more may come."""
        return self._inner.stopped_ns

    async def run(self, epoch_ns: int) -> str:
        """Start at ``epoch_ns`` and return, once drained, why the phase ended."""
        reason = await self._inner.run(epoch_ns)
        await self._sender.rest()
        return reason

    def stop(self, reason: str) -> None:
        """Issue nothing more."""
        self._loop.call_soon_threadsafe(self._inner.stop, reason)

    def give_up(self, seq: int, now: int, kind: str) -> None:
        """End ``seq`` as a failure of ``kind`` unless it has ended; a blocked loop is told once."""
        if seq in self._given_up:
            return
        self._given_up.add(seq)
        self._loop.call_soon_threadsafe(self._sender.give_up, seq, now, kind)


def _nobody(seq: int, now: int, ok: bool) -> None:
    """Before a phase nothing is in flight."""
