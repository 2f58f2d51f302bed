"""Signals and kills, sent for real: the log is closed or can be recovered, and nothing hangs."""

from __future__ import annotations

import json
import signal
from typing import Any

import psutil
import pytest

from fairmark.drive.job import Progress
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.live import open_store
from fairmark.evidence.recover import recover
from fairmark.evidence.store import OUTCOMES

pytestmark = pytest.mark.faults

LONG = ("settings.target_qps=50", "settings.min_query_count=5000")


def outcomes(folder: Any) -> list[str | None]:
    return [q["failure"] for q in load_evidence(folder / "evidence").queries.to_pylist()]


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
def test_one_signal_drains_and_closes(
    bench: Any, coordinator: Any, number: signal.Signals, reason: str
) -> None:
    run = coordinator("Server", bench.sut(ttft_ms=100), *LONG)
    run.await_answers(3)
    run.signal(number)
    assert run.finish() == "closed"
    assert run.record["outcome"]["stop_reason"] == reason
    failures = outcomes(run.folder)
    # Drained: what was in flight was answered.
    assert 3 <= len(failures) < 5000
    assert set(failures) == {None}


def test_a_second_signal_closes_at_once(bench: Any, coordinator: Any) -> None:
    sut = bench.sut(faults=("stall-before@after=25",))
    run = coordinator("Server", sut, *LONG, "run.query_timeout_s=500", "run.drain_timeout_s=500")
    run.await_answers(3)
    run.signal(signal.SIGINT)
    run.signal(signal.SIGINT)
    assert run.finish() == "closed"
    assert run.record["outcome"]["stop_reason"] == "interrupted"
    assert set(outcomes(run.folder)) <= {None, "aborted"}


def test_a_signal_in_a_hung_warmup_closes(bench: Any, coordinator: Any) -> None:
    sut = bench.sut(faults=("stall-before",))
    run = coordinator("SingleStream", sut, "run.query_timeout_s=500", "run.drain_timeout_s=500")
    run.await_answers(0)
    for _ in range(2):
        run.signal(signal.SIGINT)
    assert run.finish() == "closed"
    assert run.record["outcome"]["stop_reason"] == "interrupted"


def test_a_killed_worker_ends_the_run_and_keeps_what_it_had(bench: Any, coordinator: Any) -> None:
    run = coordinator("Server", bench.sut(ttft_ms=100), *LONG, "settings.workers=2")
    run.await_answers(6)
    victim, survivor = run.workers()
    victim.kill()
    assert run.finish() == "closed"
    assert not survivor.is_running()
    outcome = run.record["outcome"]
    assert (outcome["stop_reason"], outcome["detail"]) == ("worker_died", "worker 0 ended with code -9")
    queries = load_evidence(run.folder / "evidence").queries.to_pylist()
    assert {q["worker"] for q in queries if q["failure"] is None} == {0, 1}
    assert {q["worker"] for q in queries if q["failure"] == "aborted"} <= {0}
    assert {q["failure"] for q in queries} <= {None, "aborted"}


def test_a_killed_coordinator_leaves_no_worker_and_a_log_that_can_be_recovered(
    bench: Any, coordinator: Any
) -> None:
    run = coordinator("Server", bench.sut(ttft_ms=100), *LONG, "settings.workers=2")
    run.await_answers(6)
    workers = run.workers()
    run.process.kill()
    run.process.wait()
    psutil.wait_procs(workers, timeout=30)
    assert not any(w.is_running() for w in workers)
    assert not (run.folder / "run.json").exists()

    found = recover(run.folder)
    assert found.stop_reason == "terminated"
    failures = outcomes(run.folder)
    assert (found.issued, found.completed) == (len(failures), failures.count(None))
    assert found.completed >= 6
    assert set(failures) <= {None, "aborted"}


def test_everything_killed_at_once_can_be_recovered(bench: Any, coordinator: Any) -> None:
    run = coordinator("SingleStream", bench.sut(ttft_ms=20), "settings.min_query_count=5000")
    run.await_answers(5)
    workers = run.workers()
    for process in (*workers, psutil.Process(run.process.pid)):
        process.kill()
    run.process.wait()
    found = recover(run.folder)
    failures = outcomes(run.folder)
    # One query at a time: at most the one in flight is lost.
    assert failures.count("aborted") == found.aborted <= 1
    assert found.completed == len(failures) - found.aborted
    assert set(failures) <= {None, "aborted"}
    events = load_evidence(run.folder / "evidence").events
    assert len(events) > 0


def test_what_broke_as_everything_was_killed_is_not_the_servers_doing(bench: Any, coordinator: Any) -> None:
    run = coordinator("SingleStream", bench.sut(ttft_ms=20), "settings.min_query_count=5000")
    run.await_answers(5)
    workers = run.workers()
    for process in (*workers, psutil.Process(run.process.pid)):
        process.kill()
    run.process.wait()
    store = open_store(run.folder / "live")
    stamps, beat = store.columns(write=True).stamps, store.control().alive_ns
    assert beat
    answered = [seq for seq, outcome in enumerate(stamps.outcome) if outcome == OUTCOMES.index("complete")]
    # A server that dies on its own long before, and one that is killed together with the driver.
    early, late = answered[-2:]
    for seq, completed in ((early, beat - 10**9), (late, beat + 10**6)):
        stamps.outcome[seq], stamps.completed[seq] = OUTCOMES.index("reset"), completed
    recover(run.folder)
    failures = {q["seq"]: q["failure"] for q in load_evidence(run.folder / "evidence").queries.to_pylist()}
    assert failures[late] == "aborted"
    assert failures[early] == "truncated"


def test_a_worker_that_cannot_start_ends_the_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job = bench.job("Offline", bench.sut())
    monkeypatch.setattr("fairmark.drive.crew.sys.executable", "/bin/false")
    execute(job, progress=lambda _: None, stop=StopSignal())
    outcome = json.loads((job.out / "run.json").read_text())["outcome"]
    assert (outcome["stop_reason"], outcome["phases"]) == ("worker_died", [])
    assert outcome["detail"] == "worker 0 ended with code 1"


def test_a_hung_worker_is_killed_and_the_run_closed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairmark.drive.crew._SILENCE_NS", 3_000_000_000)
    stopped: list[psutil.Process] = []

    def stop_one(progress: Progress) -> None:
        if progress.stage == "performance" and progress.completed > 3 and not stopped:
            (worker,) = (c for c in psutil.Process().children() if "fairmark.drive.worker" in c.cmdline())
            worker.suspend()
            stopped.append(worker)

    job = bench.job("Server", bench.sut(), *LONG)
    execute(job, progress=stop_one, stop=StopSignal())
    outcome = json.loads((job.out / "run.json").read_text())["outcome"]
    assert (outcome["stop_reason"], outcome["detail"]) == ("worker_died", "worker 0 hung")
    assert not stopped[0].is_running()
    assert None in outcomes(job.out)
