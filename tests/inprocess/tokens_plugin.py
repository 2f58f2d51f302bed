"""Engines that report tokens the way LoadGen has an error for, and one that need not stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import fairmark
from fairmark import Chunk, Done, Event, Query, Sample, Sink, Usage

LATER_S = 0.1


def usage(tokens: int) -> Usage:
    return Usage(input_tokens=5, output_tokens=tokens)


class SometimesWhole(fairmark.SyncSUT):
    """Every fourth row is answered whole: no first token, though there are four."""

    def generate(self, sample: Sample) -> Iterator[Event]:
        if sample.index % 4:
            yield Chunk("a", n_tokens=1)
            yield Chunk("bcd", n_tokens=3)
        yield Done("stop", usage(4))


class Short(fairmark.SyncSUT):
    """Rows by turns answer with 0, 1 and 3 tokens."""

    def generate(self, sample: Sample) -> Iterator[Event]:
        tokens = (0, 1, 3)[sample.index % 3]
        for _ in range(tokens):
            yield Chunk("a", n_tokens=1)
        yield Done("stop", usage(tokens))


class Twice(fairmark.CallbackSUT):
    """Completes every third row again, later and with another count."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            sink.chunk(query.seq, Chunk("a", n_tokens=1))
            sink.chunk(query.seq, Chunk("b", n_tokens=1))
            sink.done(query.seq, Done("stop", usage(2)))
            if query.sample.index % 3 == 0:
                time.sleep(LATER_S)
                sink.done(query.seq, Done("length", usage(9)))


class Whole(fairmark.BatchSUT):
    """Streams nothing."""

    max_batch = 8

    def infer(self, samples: Sequence[Sample]) -> list[Done]:
        return [Done("stop", usage(3), data=b"abc") for _ in samples]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {"sometimes-whole": SometimesWhole, "short": Short, "twice": Twice, "whole": Whole}
