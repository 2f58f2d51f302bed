"""Engines that go wrong in the ways that engines do."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence

import fairmark
from fairmark import Chunk, Done, Event, Query, QueryBlock, Sample, Sink, Usage

USAGE = Usage(input_tokens=5, output_tokens=2)


class Steady(fairmark.SyncSUT):
    """Nothing is wrong with it; it says who it is."""

    def open(self) -> None:
        assert self.logs is not None
        (self.logs / "pid").write_text(str(os.getpid()))

    def generate(self, sample: Sample) -> Iterator[Event]:
        time.sleep(0.02)
        yield Chunk("a b", n_tokens=2)
        yield Done("stop", USAGE)


class Midway(fairmark.SyncSUT):
    """Every other generation breaks off in the middle."""

    def generate(self, sample: Sample) -> Iterator[Event]:
        yield Chunk("a", n_tokens=1)
        if sample.index % 2:
            raise RuntimeError("out of memory")
        yield Done("stop", USAGE)


class Stalled(fairmark.SyncSUT):
    """Every eighth generation never goes on; there are threads enough for the others."""

    concurrency = 16

    def generate(self, sample: Sample) -> Iterator[Event]:
        yield Chunk("a", n_tokens=1)
        if sample.index % 8 == 0:
            threading.Event().wait()
        yield Done("stop", USAGE)


class Blocking(fairmark.AsyncSUT):
    """Blocks the event loop for good."""

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        yield Chunk("a", n_tokens=1)
        threading.Event().wait()


class Waiting(fairmark.AsyncSUT):
    """Every eighth generation waits for ever, and lets the loop go on."""

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        yield Chunk("a", n_tokens=1)
        if sample.index % 8 == 0:
            await asyncio.Event().wait()
        yield Done("stop", USAGE)


class Short(fairmark.BatchSUT):
    """Forgets the last of every batch."""

    max_batch = 4

    def infer(self, samples: Sequence[Sample]) -> list[Done]:
        return [Done("stop", USAGE) for _ in samples[1:]]


class Long(fairmark.BatchSUT):
    """One answer more than was asked."""

    max_batch = 4

    def infer(self, samples: Sequence[Sample]) -> list[Done]:
        return [Done("stop", USAGE) for _ in range(len(samples) + 1)]


class Mortal(fairmark.CallbackSUT):
    """Its thread dies at the first query with an odd sample, and with it every later one."""

    alive = True

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            self.alive = self.alive and query.sample.index % 2 == 0
            if self.alive:
                sink.done(query.seq, Done("stop", USAGE))


class Twice(fairmark.CallbackSUT):
    """Two threads complete every query at the same time."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        barrier = threading.Barrier(2)
        threads = [threading.Thread(target=self._complete, args=(queries, sink, barrier)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _complete(self, queries: Sequence[Query], sink: Sink, barrier: threading.Barrier) -> None:
        barrier.wait()
        for query in queries:
            sink.done(query.seq, Done("stop", USAGE))


class Arrays(fairmark.CallbackSUT):
    """Completes the one Offline query as arrays, the later half first; and some of it again."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            sink.done(query.seq, Done("stop", USAGE))

    def issue_block(self, block: QueryBlock, sink: Sink) -> None:
        half = len(block) // 2
        for part in (block.seq[half:], block.seq[:half], block.seq[:3]):
            sink.done_many(part, output_tokens=part * 0 + 2, input_tokens=part * 0 + 5)


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {
        "steady": Steady,
        "midway": Midway,
        "stalled": Stalled,
        "blocking": Blocking,
        "waiting": Waiting,
        "short": Short,
        "long": Long,
        "mortal": Mortal,
        "twice": Twice,
        "arrays": Arrays,
    }
