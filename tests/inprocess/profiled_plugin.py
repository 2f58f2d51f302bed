"""An engine whose profiler writes a trace, one that forgets to, and one that has none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import fairmark
from fairmark import Chunk, Done, Event, Sample, Usage


class Plain(fairmark.SyncSUT):
    answered = 0

    def generate(self, sample: Sample) -> Iterator[Event]:
        self.answered += 1
        yield Chunk("word", n_tokens=1)
        yield Done("stop", Usage(input_tokens=1, output_tokens=1))


class Profiled(Plain):
    @contextmanager
    def profile(self) -> Iterator[None]:
        before = self.answered
        yield
        assert self.traces is not None
        calls = [
            {"ph": "X", "cat": "cpu_op", "name": "answer", "pid": 1, "tid": 1, "ts": 10 * n, "dur": 5}
            for n in range(self.answered - before)
        ]
        (self.traces / "engine.json").write_text(json.dumps({"traceEvents": calls}))


class Forgetful(Plain):
    @contextmanager
    def profile(self) -> Iterator[None]:
        yield


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {"plain": Plain, "profiled": Profiled, "forgetful": Forgetful}
