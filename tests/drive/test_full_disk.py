"""No space for the last health figures: the run says so, and what it measured is kept."""

from __future__ import annotations

import asyncio
import gc
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.drive.full_worker import no_space

from fairmark.drive.crew import Crew, last_message
from fairmark.drive.health import Health
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.watch import Watch
from fairmark.evidence.store import DiskFullError, Stamps

FULL: Any = SimpleNamespace(health=no_space)


def test_a_run_that_cannot_keep_its_last_health_figures_ends_for_a_full_disk(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr("fairmark.drive.run.Crew", partial(Crew, module="tests.drive.full_worker"))
    ran = bench.run("SingleStream", bench.sut(ttft_ms=10))
    assert (ran.record["outcome"]["stop_reason"], ran.record["outcome"]["detail"]) == ("disk_full", None)
    assert {query["failure"] for query in ran.rows("queries")} == {None}


def test_watching_stops_though_the_last_figures_find_no_space() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        health = Health(loop, FULL, [0], {})
        before = list(gc.callbacks)
        health.start()
        time.sleep(0.02)
        assert health._timer is not None
        with pytest.raises(DiskFullError):
            health.stop()
        assert gc.callbacks == before
        assert not loop.remove_reader(health._timer.descriptor)

    asyncio.run(main())


def test_a_watch_that_cannot_keep_its_last_figures_says_that_the_disk_is_full() -> None:
    cells = (memoryview(bytearray(8)).cast("q") for _ in Stamps._fields)
    sink = EventSink(Stamps(*cells), SimpleNamespace(append=no_space), 1, pytest.fail)
    block: Any = SimpleNamespace(beat=lambda *_: None)
    nobody: Any = None
    watch = Watch(nobody, block, nobody, sink, Health(None, FULL, [0], {}), nobody)
    phase: Any = SimpleNamespace(issued=0, stopped_ns=0)
    watch.begin(0, phase, 0, 1)
    time.sleep(0.02)
    watch.end()
    assert watch.fatal == "disk_full"


TRACEBACK = """Traceback (most recent call last):
  File "/home/someone/fairmark/drive/worker.py", line 93, in run
    raise self._crash
    ^^^^^^^^^^^^^^^^^
ValueError: no such thing

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/home/someone/fairmark/drive/worker.py", line 99, in run
    self._log.close()
RuntimeError: the log is closed
"""


def test_only_messages_of_a_workers_output_are_told() -> None:
    assert last_message(TRACEBACK) == "RuntimeError: the log is closed"
    assert last_message("") == ""
    assert (
        last_message("the server cannot be reached: refused\n\n") == "the server cannot be reached: refused"
    )


@pytest.mark.parametrize("length", range(0, len(TRACEBACK), 7))
def test_a_traceback_that_was_cut_off_tells_no_path(length: int) -> None:
    assert "/home" not in last_message(TRACEBACK[:length])
