"""One small engine in four shapes, and a few that break the plugin contract."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import fairmark
from fairmark import Chunk, Done, Event, Failed, Query, Sample, Sink, Usage

USAGE = Usage(input_tokens=5, output_tokens=2)


class Sync(fairmark.SyncSUT):
    concurrency = 2

    def describe(self) -> dict[str, Any]:
        return {"engine": "words"}

    def generate(self, sample: Sample) -> Iterator[Event]:
        yield Chunk(f"{sample.index} ", token_ids=[sample.index])
        yield Chunk("done", token_ids=[7])
        yield Done("stop", USAGE)


class Async(fairmark.AsyncSUT):
    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        await asyncio.sleep(0.001)
        yield Chunk(f"{sample.index} done", n_tokens=2)
        yield Done("stop", USAGE)


class Batch(fairmark.BatchSUT):
    max_batch = 8
    max_wait_ms = 1.0

    def infer(self, samples: Sequence[Sample]) -> list[Done]:
        return [Done("stop", USAGE, data=str(s.index).encode()) for s in samples]


class Callback(fairmark.CallbackSUT):
    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        threading.Thread(target=self._answer, args=(queries, sink)).start()

    def _answer(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            sink.chunk(query.seq, Chunk(f"{query.sample.index} done", n_tokens=2))
            sink.done(query.seq, Done("stop", USAGE))


class Wrong(fairmark.SyncSUT):
    """What it does is decided by the row."""

    def generate(self, sample: Sample) -> Iterator[Any]:
        match sample.index % 6:
            case 0:
                yield Chunk("x", n_tokens=1)
            case 1:
                raise RuntimeError("boiled over")
            case 2:
                yield "not an event"
            case 3:
                yield Failed("gremlins", "three of them")
            case 4:
                yield Done("stop", USAGE)
                yield Chunk("late", n_tokens=1)
            case _:
                yield Done("stop", USAGE)
                yield Done("length", USAGE)


class Reporter(fairmark.CallbackSUT):
    """Reports what it was never asked."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            sink.done(query.seq, Done("stop", USAGE))
            sink.done(-1, Done("stop", USAGE))
            sink.done(10**9, Done("stop", USAGE))


class Hung(fairmark.SyncSUT):
    def generate(self, sample: Sample) -> Iterator[Event]:
        time.sleep(3600)
        yield Done()


class Shut(fairmark.SyncSUT):
    def open(self) -> None:
        raise OSError("no such device")

    def generate(self, sample: Sample) -> Iterator[Event]:
        yield Done()


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {
        "sync": Sync,
        "async": Async,
        "batch": Batch,
        "callback": Callback,
        "wrong": Wrong,
        "reporter": Reporter,
        "hung": Hung,
        "shut": Shut,
    }
