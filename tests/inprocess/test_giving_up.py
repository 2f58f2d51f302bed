"""What is given up on an event loop ends that query alone, whenever the loop gets to hear of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

import fairmark
from fairmark import Done, Event, Sample
from fairmark.drive.inprocess.loop_phase import LoopPhase, TaskSender
from fairmark.drive.inprocess.loop_stream import LoopStreamPhase
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.phase import Share
from fairmark.drive.policy import ClosedLoop, Limits
from fairmark.evidence.recorded import ENDS
from fairmark.evidence.store import Stamps
from fairmark.scenario.model import Generation

SAMPLES = [Sample(n, {}, None, Generation(max_output_tokens=4)) for n in range(4)]
LIMITS = Limits(max_units=len(SAMPLES))


class Log:
    """A log in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int, int, bytes]] = []

    def append(self, *record: Any) -> None:
        self.kept.append(record)


class Engine(fairmark.AsyncSUT):
    """Its second query is given up while it is being answered."""

    phase: LoopStreamPhase | LoopPhase

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        if sample.index == 1:
            self.phase.give_up(1, time.monotonic_ns(), "timeout")
            await self.dally()
        yield Done()

    async def dally(self) -> None:
        raise NotImplementedError


class Blocking(Engine):
    """Holds the loop until it is due for a turn, and ends before the interruption can come."""

    async def dally(self) -> None:
        time.sleep(0.01)


class Awaiting(Engine):
    """Waits for ever."""

    async def dally(self) -> None:
        await asyncio.Event().wait()


class Deaf(Engine):
    """Takes no notice of its interruption."""

    async def dally(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            time.sleep(0.01)


def new_sink() -> EventSink:
    cells = (memoryview(bytearray(8 * len(SAMPLES))).cast("q") for _ in Stamps._fields)
    return EventSink(Stamps(*cells), Log(), len(SAMPLES), pytest.fail)


def share() -> Share:
    return Share(len(SAMPLES), 0, 1, 0, None, memoryview(b""))


@pytest.mark.parametrize("kind", [Blocking, Awaiting, Deaf])
def test_a_single_stream_goes_on_after_what_was_given_up(kind: type[Engine]) -> None:
    sink = new_sink()

    async def drive() -> tuple[str, int]:
        engine = kind({})
        engine.phase = LoopStreamPhase(share(), LIMITS, engine, sink, SAMPLES, lambda: None)
        reason = await engine.phase.run(time.monotonic_ns())
        # An interruption that is left over would hit whatever comes next.
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return reason, task.cancelling()

    assert asyncio.run(drive()) == ("max_queries", 0)
    assert [ENDS[n] for n in sink.stamps.outcome] == ["complete", "timeout", "complete", "complete"]
    assert sink.log.kept[1:] == []  # but for the name of the finish reason: no breach


class Overdue(Engine):
    """Blocks the loop while the watch finds its second query overdue again and again."""

    async def dally(self) -> None:
        for _ in range(9):
            self.phase.give_up(1, time.monotonic_ns(), "timeout")
        await asyncio.Event().wait()


def test_a_blocked_loop_is_told_once_of_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, told = new_sink(), []

    async def drive() -> str:
        loop = asyncio.get_running_loop()
        post = loop.call_soon_threadsafe

        def counted(callback: Any, *given: Any) -> Any:
            told.append(given[0])
            return post(callback, *given)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        engine = Overdue({})
        sender = TaskSender(engine, sink, SAMPLES.__getitem__)
        policy = ClosedLoop(len(SAMPLES), 2, LIMITS)
        engine.phase = LoopPhase(share(), policy, sender, lambda: None, None)
        return await engine.phase.run(time.monotonic_ns())

    assert asyncio.run(drive()) == "max_queries"
    assert told == [1]
    assert [ENDS[n] for n in sink.stamps.outcome] == ["complete", "timeout", "complete", "complete"]
