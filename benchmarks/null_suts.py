"""Systems that do nothing, one of each shape. As plugins: ``-p benchmarks/null_suts.py``.

Each answers as a null LoadGen system does, with a new answer object per sample. They note what the driver
cannot know: when a query was at their door, and how much memory their process took.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from time import monotonic_ns

import fairmark
from fairmark import Done, Event, Query, QueryBlock, Sample, Sink

NOTES = "notes.json"


class Notes:
    """Memory from `load` to `unload`, and the times of `entered`, written into the folder of logs."""

    logs: Path | None
    entered: array[int]

    def load(self, samples: Sequence[Sample]) -> None:
        self.entered = array("q")
        self.loaded_bytes = from_here()

    def unload(self) -> None:
        assert self.logs is not None
        notes = {"grown_bytes": resident("VmHWM") - self.loaded_bytes, "entered_ns": list(self.entered)}
        (self.logs / NOTES).write_text(json.dumps(notes))


def from_here() -> int:
    """Resident bytes; the peak starts from here again."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


class Callback(Notes, fairmark.CallbackSUT):
    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        for query in queries:
            sink.done(query.seq, Done())


class Arrays(Callback):
    def issue_block(self, block: QueryBlock, sink: Sink) -> None:
        sink.done_many(block.seq)


class Arriving(Notes, fairmark.CallbackSUT):
    """Notes when queries arrive."""

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        self.entered.append(monotonic_ns())
        for query in queries:
            sink.done(query.seq, Done())


class Sync(Notes, fairmark.SyncSUT):
    def generate(self, sample: Sample) -> Iterator[Event]:
        yield Done()


class Async(Notes, fairmark.AsyncSUT):
    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        yield Done()


class Batch(Notes, fairmark.BatchSUT):
    max_batch = 256

    def infer(self, samples: Sequence[Sample]) -> list[Done]:
        return [Done() for _ in samples]


class Busy(Notes, fairmark.SyncSUT):
    """Another thread of its process never lets go of the interpreter lock of its own accord."""

    def open(self) -> None:
        threading.Thread(target=self._burn, daemon=True).start()

    def _burn(self) -> None:
        n = 0
        while True:
            n += 1

    def generate(self, sample: Sample) -> Iterator[Event]:
        self.entered.append(monotonic_ns())
        yield Done()


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {
        "callback": Callback,
        "arrays": Arrays,
        "arriving": Arriving,
        "sync": Sync,
        "async": Async,
        "batch": Batch,
        "busy": Busy,
    }
