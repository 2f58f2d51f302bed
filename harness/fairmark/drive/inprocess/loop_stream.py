"""SingleStream of an `AsyncSUT`: the coroutine that issues a query answers it too.

One query in flight needs no task of its own, no pacer and no policy (`fairmark.drive.inprocess.tight` says
why); that makes a query four times cheaper than in `fairmark.drive.inprocess.loop_phase`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Final

from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import ENDED, GIVEN_UP, ISSUED
from fairmark.drive.inprocess.tight import calm
from fairmark.drive.inprocess.waiting import wait_until
from fairmark.drive.phase import Share
from fairmark.drive.policy import Limits
from fairmark.samples.sample import Sample
from fairmark.sut.api import AsyncSUT, Done

__all__ = ["LoopStreamPhase"]

_TURN_NS: Final = 5_000_000
"""How long queries may follow one another before the loop gets a turn, for whatever else the engine runs on
it: an engine that never waits would starve it."""

_EARLY_NS: Final = 5_000_000


class LoopStreamPhase:
    """The phase; methods other than `run` are called from the thread that watches.

    Args:
        samples: of the phase, in the order they are issued.
    """

    pacer_name = None

    def __init__(
        self,
        part: Share,
        limits: Limits,
        sut: AsyncSUT,
        sink: EventSink,
        samples: Sequence[Sample],
        flush: Callable[[], None],
    ) -> None:
        self._first_seq = part.first_seq
        self._limits = limits
        self._generate = sut.generate
        self._sink = sink
        self._samples = samples
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._interrupted = False
        self._forced: str | None = None
        self.issued = 0
        self.stopped_ns = 0
        self.answering = -1

    async def run(self, epoch_ns: int) -> str:
        """Start at ``epoch_ns``; answer one query after the other; return why the phase ended."""
        self._task = asyncio.current_task()
        await asyncio.sleep(max(0, epoch_ns - monotonic_ns() - _EARLY_NS) / 1e9)
        wait_until(epoch_ns, self._stopped)
        reason = await self._issue_all(epoch_ns)
        self.stopped_ns = monotonic_ns()
        self._flush()
        reason = self._forced or reason
        assert reason is not None
        return reason

    def stop(self, reason: str) -> None:
        """Issue nothing more."""
        self._forced = self._forced or reason

    def give_up(self, seq: int, now: int, kind: str) -> None:
        """End ``seq`` as a failure of ``kind`` unless it has ended, and interrupt its generator."""
        if self._sink.give_up(seq, now, kind):
            self._loop.call_soon_threadsafe(self._interrupt, seq)

    async def _issue_all(self, epoch_ns: int) -> str | None:
        generate, total, first = self._generate, len(self._samples), self._first_seq
        sink, issued, state = self._sink, self._sink.stamps.issued, self._sink.state
        done, event = sink.done, sink.event
        units, until_ns = calm(self._limits, 0, total)
        turn_ns = 0
        for seq, sample in enumerate(self._samples, first):
            if self._forced is not None:
                break
            now = monotonic_ns()
            if now >= turn_ns:
                await asyncio.sleep(0)
                now = monotonic_ns()
                turn_ns = now + _TURN_NS
            issued[seq] = now
            state[seq] = ISSUED
            self.issued = count = seq - first + 1
            self.answering = seq
            try:
                ended = False
                async for value in generate(sample):
                    if type(value) is Done:
                        done(seq, value)
                    else:
                        event(seq, value)
                    if ended:
                        break
                    ended = state[seq] >= ENDED
                if not ended:
                    sink.no_end(seq)
            except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
                self._raised(seq, error)
            # An interruption that comes from here on is too late, and must not hit the turn of the loop.
            self.answering = -1
            if self._interrupted:
                self._recover()
            if count >= units or now - epoch_ns >= until_ns:
                reason = self._limits.end(count, total, now - epoch_ns)
                if reason:
                    return reason
                units, until_ns = calm(self._limits, count, total)
        return None

    def _raised(self, seq: int, error: BaseException) -> None:
        """Only what the driver gave up on is interrupted by it; otherwise the engine did it itself."""
        if not (isinstance(error, asyncio.CancelledError) and self._sink.state[seq] == GIVEN_UP):
            self._sink.raised(seq, error)

    def _recover(self) -> None:
        """The interruption has been delivered, whether or not the generator let it through."""
        self._interrupted = False
        assert self._task is not None
        self._task.uncancel()

    def _interrupt(self, seq: int) -> None:
        """Runs on the loop, so that a query that is being answered now is one that waits in its generator."""
        if self.answering == seq and self._task is not None:
            self._interrupted = True
            self._task.cancel()

    def _stopped(self) -> bool:
        return self._forced is not None
