"""Once an event could not be kept, no query ends as a success any more."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

import numpy as np
import pytest

from fairmark import Chunk, Done, Failed, Usage
from fairmark.drive.inprocess.sink import EventSink
from fairmark.evidence.recorded import ENDS
from fairmark.evidence.store import DiskFullError, Stamps

SAMPLES = 6


class Full:
    """A log that keeps nothing once it is full."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception = error
        self.full = False

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        if self.full:
            raise self.error


ENDINGS: dict[str, Callable[[EventSink], None]] = {
    "done": lambda sink: [sink.done(seq, Done()) for seq in range(1, SAMPLES)],
    "counted": lambda sink: [sink.done(seq, Done(usage=Usage(1, 2))) for seq in range(1, SAMPLES)],
    "failed": lambda sink: [sink.failed(seq, Failed("engine_error", "why")) for seq in range(1, SAMPLES)],
    "array": lambda sink: sink.done_many(np.arange(1, SAMPLES)),
    "counted array": lambda sink: sink.done_many(np.arange(1, SAMPLES), np.ones(SAMPLES - 1, np.int64)),
    "list": lambda sink: sink.done_all(range(1, SAMPLES), [Done()] * (SAMPLES - 1)),
}


@pytest.mark.parametrize("error", [DiskFullError("no space"), OSError(errno.EIO, os.strerror(errno.EIO))])
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("chunk_lost", [False, True])
def test_what_ends_after_an_event_was_lost_is_aborted(
    error: Exception, ending: str, chunk_lost: bool
) -> None:
    log, crashes = Full(error), []
    cells = (memoryview(bytearray(8 * SAMPLES)).cast("q") for _ in Stamps._fields)
    sink = EventSink(Stamps(*cells), log, SAMPLES, crashes.append)
    for seq in range(SAMPLES):
        sink.issue(seq, 1)
    sink.done(0, Done())
    log.full = True
    if chunk_lost:
        sink.chunk(1, Chunk("a", n_tokens=1))
    ENDINGS[ending](sink)
    kept_all = not chunk_lost and ending in ("done", "array", "list")
    rest = "complete" if kept_all else "aborted"
    assert [ENDS[number] for number in sink.stamps.outcome] == ["complete", *[rest] * (SAMPLES - 1)]
    assert set(crashes) == (set() if kept_all else {error})
