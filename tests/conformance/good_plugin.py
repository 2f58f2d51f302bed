"""A small engine that keeps every rule of the kit, streams, and takes its time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import fairmark
from fairmark import Chunk, Done, Event, Sample, Usage


class Good(fairmark.SyncSUT):
    """Says the words of the question backwards, and a few more."""

    concurrency = 4

    @dataclass(frozen=True)
    class Options:
        step_ms: Annotated[float, "time between two words"] = 1.5

    options: Any

    def describe(self) -> dict[str, Any]:
        return {"engine": "words", "version": "1"}

    def generate(self, sample: Sample) -> Iterator[Event]:
        words, reason = self.answer(sample)
        for word in words:
            time.sleep(self.options.step_ms / 1e3)
            yield Chunk(f"{word} ", n_tokens=1)
        yield Done(reason, self.usage(sample, words))

    def answer(self, sample: Sample) -> tuple[list[str], str]:
        """What the request allows of the whole answer, and why it ends there."""
        asked = sample.generation
        text = " ".join(
            [*reversed(self.question(sample)), "and", "that", "would", "be", "all", "there", "is"]
        )
        for stop in asked.stop:
            text = text.partition(stop)[0]
        words = text.split()
        limit = asked.max_output_tokens or len(words)
        return words[:limit], "length" if limit < len(words) else "stop"

    def question(self, sample: Sample) -> list[str]:
        message: Any = sample.prompt
        return str(message[-1]["content"]).split()

    def usage(self, sample: Sample, words: list[str]) -> Usage:
        return Usage(input_tokens=len(self.question(sample)), output_tokens=len(words))


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {"good": Good}
