"""Plugins with one fault each. The name is the id of the one check that must fail."""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import fairmark
from fairmark import Chunk, Done, Event, Failed, Query, Sample, Sink, Usage

sys.path.insert(0, str(Path(__file__).parent))
from good_plugin import Good  # type: ignore[import-not-found]


class Undocumented(Good):
    @dataclass(frozen=True)
    class Options:
        step_ms: float = 1.5


class Unreadable(Good):
    @dataclass(frozen=True)
    class Options:
        step_ms: Annotated[float, "time between two words"] = 1.5
        cores: Annotated[set[int], "where to run"] = frozenset()  # type: ignore[assignment]


class TakesSecret(Good):
    @dataclass(frozen=True)
    class Options:
        step_ms: Annotated[float, "time between two words"] = 1.5
        api_key: Annotated[str, "of the engine"] = ""


class Nameless(Good):
    def describe(self) -> dict[str, Any]:
        return {"tuned": True}


class Restless(Good):
    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "uptime_ns": time.monotonic_ns()}


class WorksEarly(Good):
    """Computes the answers when samples are loaded, each once only."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.known: dict[Any, list[Event]] = {}

    def load(self, samples: Sequence[Sample]) -> None:
        for sample in samples:
            if self.key(sample) not in self.known:
                self.known[self.key(sample)] = list(super().generate(sample))

    def generate(self, sample: Sample) -> Iterator[Event]:
        for event in self.known[self.key(sample)]:
            time.sleep(self.options.step_ms / 1e3)
            yield event

    def key(self, sample: Sample) -> Any:
        return sample.prompt[-1]["content"], sample.generation.max_output_tokens  # type: ignore[index]


class LoadsOnce(Good):
    model: Any = "the model"

    def unload(self) -> None:
        self.model = None

    def generate(self, sample: Sample) -> Iterator[Event]:
        if self.model is None:
            raise RuntimeError("no model")
        return super().generate(sample)


class OnThreads(fairmark.CallbackSUT):
    """Answers as `Good` does, from threads of its own."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.good = Good(Good.Options())

    def describe(self) -> dict[str, Any]:
        return self.good.describe()

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            threading.Thread(target=self.answer, args=(query, sink)).start()

    def answer(self, query: Query, sink: Sink) -> None:
        for event in self.good.generate(query.sample):
            if isinstance(event, Chunk):
                sink.chunk(query.seq, event)
            else:
                sink.done(query.seq, event)


class DropsOnFlush(OnThreads):
    """Four threads; what has piled up before them when the phase ends is thrown away."""

    def open(self) -> None:
        self.inbox: queue.SimpleQueue[tuple[Query, Sink] | None] = queue.SimpleQueue()
        for _ in range(4):
            threading.Thread(target=self.serve, daemon=True).start()

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            self.inbox.put((query, sink))

    def serve(self) -> None:
        while (issued := self.inbox.get()) is not None:
            self.answer(*issued)

    def close(self) -> None:
        for _ in range(4):
            self.inbox.put(None)

    def flush(self) -> None:
        while self.inbox.qsize() > 4:
            self.inbox.get()


class KeepsLock(fairmark.AsyncSUT):
    """A task that is cancelled keeps its slot for ever."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.good = Good(Good.Options())

    def open(self) -> None:
        self.slots = asyncio.Semaphore(2)

    def describe(self) -> dict[str, Any]:
        return self.good.describe()

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        await self.slots.acquire()
        words, reason = self.good.answer(sample)
        for word in words:
            await asyncio.sleep(0.01)
            yield Chunk(f"{word} ", n_tokens=1)
        self.slots.release()
        yield Done(reason, self.good.usage(sample, words))


class PretendsAlive(Good):
    """Its engine is a process; when that is gone it makes answers up."""

    def open(self) -> None:
        self.engine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def close(self) -> None:
        self.engine.kill()
        self.engine.wait()


class LeavesThread(Good):
    def open(self) -> None:
        threading.Thread(target=time.sleep, args=(60,), name="engine").start()


class LeavesDaemon(Good):
    def open(self) -> None:
        threading.Thread(target=time.sleep, args=(60,), name="engine", daemon=True).start()


class LeavesProcess(Good):
    """Its engine is a process, which ends with this one only."""

    def open(self) -> None:
        self.engine = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def generate(self, sample: Sample) -> Iterator[Event]:
        if self.engine.poll() is not None:
            return iter([Failed("engine_error", "the engine is gone")])
        return super().generate(sample)


class HangsInFlush(Good):
    def flush(self) -> None:
        time.sleep(1e6)


class RaisesInFlush(Good):
    def flush(self) -> None:
        raise RuntimeError("nothing to flush")


class Raises(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        if sample.index == 3:
            raise RuntimeError("out of memory")
        return super().generate(sample)


class Hangs(KeepsLock):
    """Never answers one of the questions."""

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        if sample.index == 3 and sample.generation.max_output_tokens != 1 and not sample.generation.stop:
            await asyncio.sleep(1e6)
        words, reason = self.good.answer(sample)
        for word in words:
            await asyncio.sleep(0.002)
            yield Chunk(f"{word} ", n_tokens=1)
        yield Done(reason, self.good.usage(sample, words))


class Empty(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        if sample.index == 3:
            return iter([Done("stop", Usage(5, 0))])
        return super().generate(sample)


class Exits(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        if sample.generation.stop:
            os._exit(1)
        return super().generate(sample)


class HidesFailure(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        for event in super().generate(sample):
            yield replace(event, finish_reason="error") if isinstance(event, Done) else event


class AlwaysStop(Good):
    def answer(self, sample: Sample) -> tuple[list[str], str]:
        return super().answer(sample)[0], "stop"


class IgnoresStop(Good):
    def answer(self, sample: Sample) -> tuple[list[str], str]:
        return super().answer(replace(sample, generation=replace(sample.generation, stop=())))


class Moody(Good):
    """Ignores the temperature."""

    asked = 0

    def answer(self, sample: Sample) -> tuple[list[str], str]:
        self.asked += 1
        words, reason = super().answer(sample)
        return [f"{words[0]}{self.asked}", *words[1:]], reason


class SharesState(Good):
    """Keeps the question in the engine, not in the call."""

    def generate(self, sample: Sample) -> Iterator[Event]:
        self.current = sample
        time.sleep(0.03)
        return super().generate(self.current)


class OneAtATime(Good):
    """Says that it takes four at a time, and does not."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self.busy = threading.Lock()

    def generate(self, sample: Sample) -> Iterator[Event]:
        # The kit hands two questions over at once in the steps around the queries too; those may wait.
        if not self.busy.acquire(timeout=0.04):
            raise RuntimeError("device is busy")
        try:
            yield from super().generate(sample)
        finally:
            self.busy.release()


class NoEnd(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        return (event for event in super().generate(sample) if not isinstance(event, Done) or sample.index)


class EndsTwice(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        yield from super().generate(sample)
        yield Done("stop", Usage(1, 1))


class GoesOn(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        yield from super().generate(sample)
        yield Chunk("by the way", n_tokens=3)


class ReportsOthers(OnThreads):
    """Reports every answer, and one that nobody asked for."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        sink.done(10**9, Done("stop", Usage(1, 1)))
        super().issue(queries, sink)


class ReportsEarly(OnThreads):
    """Reports the second query with the first."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        if len(queries) == 1 and queries[0].seq == 0:
            sink.done(1, Done("stop", Usage(1, 1)))
        super().issue(queries, sink)


class YieldsText(Good):
    def generate(self, sample: Sample) -> Iterator[Any]:
        yield from super().generate(sample) if sample.index else ["a text"]


class OwnFailure(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        return super().generate(sample) if sample.index else iter([Failed("oom", "of some sort")])


class Uncounted(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        for event in super().generate(sample):
            yield replace(event, usage=None) if isinstance(event, Done) else replace(event, n_tokens=None)


class CountsTwice(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        for event in super().generate(sample):
            yield replace(event, n_tokens=2) if isinstance(event, Chunk) else event


class CountsBytes(Good):
    """Its counts have nothing to do with what it says."""

    def generate(self, sample: Sample) -> Iterator[Event]:
        tokens = 1 if sample.generation.max_output_tokens == 1 else 20
        time.sleep(0.002)
        yield Chunk(self.question(sample)[-1][:4])
        yield Done("length", Usage(3, tokens)) if tokens == 1 else Done("stop", Usage(3, tokens))


class NoFirst(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        for event in super().generate(sample):
            yield replace(event, n_tokens=0) if isinstance(event, Chunk) else event


class HoldsBack(Good):
    def generate(self, sample: Sample) -> Iterator[Event]:
        return iter(list(super().generate(sample)))


class TooLong(Good):
    def answer(self, sample: Sample) -> tuple[list[str], str]:
        words, reason = super().answer(sample)
        special = sample.generation.stop or sample.generation.max_output_tokens == 1
        return (words, reason) if special else (words + ["so"] * 20, reason)


class OffByOne(Good):
    def answer(self, sample: Sample) -> tuple[list[str], str]:
        words, reason = super().answer(sample)
        return (words[:-1] if reason == "length" else words), reason


class CachesTooMuch(Good):
    def usage(self, sample: Sample, words: list[str]) -> Usage:
        return replace(super().usage(sample, words), cached_tokens=1000)


BAD: dict[str, type[fairmark.SUT]] = {
    "options-documented": Undocumented,
    "options-readable": Unreadable,
    "no-secrets": TakesSecret,
    "described": Nameless,
    "described-alike": Restless,
    "no-early-work": WorksEarly,
    "reload": LoadsOnce,
    "flush": DropsOnFlush,
    "given-up": KeepsLock,
    "dead-engine": PretendsAlive,
    "close": LeavesThread,
    "answers": Raises,
    "in-time": Hangs,
    "not-empty": Empty,
    "ends-well": Exits,
    "failure-shown": HidesFailure,
    "finish-reason": AlwaysStop,
    "stop-sequences": IgnoresStop,
    "same-answers": Moody,
    "own-answers": SharesState,
    "holds-concurrency": OneAtATime,
    "ends-every-query": NoEnd,
    "ends-once": EndsTwice,
    "quiet-after-end": GoesOn,
    "known-queries": ReportsOthers,
    "issued-first": ReportsEarly,
    "events-only": YieldsText,
    "failure-kinds": OwnFailure,
    "token-counts": Uncounted,
    "chunk-counts": CountsTwice,
    "text-counts": CountsBytes,
    "first-token": NoFirst,
    "streams": HoldsBack,
    "token-limit": TooLong,
    "one-token": OffByOne,
    "cache": CachesTooMuch,
}

MORE: dict[str, type[fairmark.SUT]] = {
    "close_process": LeavesProcess,
    "close_daemon": LeavesDaemon,
    "flush_hangs": HangsInFlush,
    "flush_raises": RaisesInFlush,
}
"""Other ways to fail the check before the underscore."""


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return BAD | MORE
