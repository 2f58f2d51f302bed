"""The watch on the driver itself sees what holds it up."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fairmark.drive.health import Health, freeze_heap
from fairmark.evidence.store import HEALTH, HEALTH_NAMES, LogReader, LogWriter

BLOCK = bytes(1 << 20)
LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}


def watched(folder: Path, run: Callable[[Any], Any], hold_up: Callable[[], Any]) -> dict[str, list[float]]:
    """The health figures recorded while ``hold_up`` ran inside the loop."""
    log = LogWriter(folder / "w", 4096)

    async def main() -> None:
        health = Health(asyncio.get_running_loop(), log, [0], {"in_flight": lambda: 7.0})
        health.start()
        await asyncio.sleep(0.01)
        hold_up()
        await asyncio.sleep(0.02)
        health.sample(time.monotonic_ns() + 2_000_000_000)
        health.stop()

    run(main())
    log.close()
    reader = LogReader(folder / "w")
    found: dict[str, list[float]] = {}
    for record in reader:
        assert record.kind == HEALTH
        found.setdefault(HEALTH_NAMES[record.seq], []).append(reader.value(record))
    reader.close()
    return found


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_that_is_held_up_is_seen(tmp_path: Path, loop: str) -> None:
    found = watched(tmp_path, LOOPS[loop], lambda: time.sleep(0.05))
    # Some beat lay within the first 2 ms of the 50.
    assert max(found["loop_stall_ns"]) >= 47_000_000


def test_a_collection_is_seen(tmp_path: Path) -> None:
    found = watched(tmp_path, uvloop.run, gc.collect)
    assert found["gc_pause_ns"][0] > 0


def test_gauges_and_the_process_are_sampled(tmp_path: Path) -> None:
    found = watched(tmp_path, uvloop.run, lambda: None)
    assert found["in_flight"] == [7.0]
    assert found["cpu_fraction"][0] >= 0
    assert found["resident_bytes"][0] > 1 << 20
    assert found["steal_fraction"][0] >= 0


def test_what_other_threads_use_is_not_the_main_threads_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = tmp_path / "schedstat"
    waits.write_text("1000 7 1\n")
    monkeypatch.setattr("fairmark.drive.health._SCHEDSTAT", waits)  # no waits in between

    def burn() -> None:
        end_ns = time.thread_time_ns() + 300_000_000
        while time.thread_time_ns() < end_ns:
            hashlib.sha256(BLOCK).digest()

    def elsewhere() -> None:
        thread = threading.Thread(target=burn)
        thread.start()
        thread.join()

    # Both are fractions of the same time.
    found = watched(tmp_path, asyncio.run, elsewhere)
    process, main = found["cpu_fraction"][0], found["busy_fraction"][0]
    assert process > 3 * main


def test_the_main_threads_own_use_counts(tmp_path: Path) -> None:
    def burn() -> None:
        end_ns = time.thread_time_ns() + 200_000_000
        while time.thread_time_ns() < end_ns:
            pass

    began_ns = time.monotonic_ns()
    found = watched(tmp_path, asyncio.run, burn)
    # `watched` takes its sample as if two seconds had passed since.
    assert found["busy_fraction"][0] >= 200_000_000 / (time.monotonic_ns() - began_ns + 2_000_000_000)


@pytest.mark.parametrize("text", [None, "0 0 0\n"], ids=["no-file", "not-counted"])
def test_where_nobody_counts_waits_there_is_no_such_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    path = tmp_path / "schedstat"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr("fairmark.drive.health._SCHEDSTAT", path)
    found = watched(tmp_path, asyncio.run, lambda: None)
    assert "cpu_fraction" in found
    assert "busy_fraction" not in found


def test_freezing_keeps_the_collector_from_what_exists() -> None:
    try:
        freeze_heap()
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.enable()
        gc.unfreeze()
