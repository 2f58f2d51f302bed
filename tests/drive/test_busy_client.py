"""A client that is busy with something else is found out, by what it is busy with, and when clocks move."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairmark.drive.crew import Crew
from fairmark.drive.job import Progress
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.evidence import environment
from fairmark.evidence.evidence import load_evidence
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure


def judged(folder: Path, record: dict[str, Any], ruleset: str = "fairmark-open-1") -> dict[str, str]:
    """The outcome of each rule."""
    record["metrics"] = measure(load_evidence(folder / "evidence"), record)
    return {r["id"]: r["outcome"] for r in judge(record, load_ruleset(ruleset))["rules"]}


@pytest.mark.parametrize("ruleset", ["fairmark-open-1", "fairmark-closed-1"])
@pytest.mark.parametrize(
    ("busy", "rule"), [("dawdle", "client-turnaround"), ("hold", "client-stalls"), ("spin", "client-cpu")]
)
def test_a_busy_client_in_a_closed_loop(
    busy: str, rule: str, ruleset: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRMARK_TEST_BUSY", busy)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr("fairmark.drive.run.Crew", partial(Crew, module="tests.drive.busy_worker"))
    ran = bench.run("SingleStream", bench.sut(ttft_ms=10))
    record = ran.record
    assert record["outcome"]["stop_reason"] == "complete"
    outcomes = judged(ran.folder, record, ruleset)
    assert outcomes[rule] == "fail"
    # The send lag of a closed loop counts from the decision to send, so it cannot see any of this.
    if busy == "dawdle":
        client = record["metrics"]["performance"]["client"]
        assert client["send_lag_ns"]["p50_ns"] < client["turnaround_ns"]["p50_ns"]


def test_waits_for_connections_are_not_the_clients_lag(bench: Any) -> None:
    ran = bench.run("Server", bench.sut(faults=("until-close",)), "settings.target_qps=5000")
    rows = ran.queries()
    opened = [row for row in rows if row["connection_new"]]
    assert opened
    client = measure(load_evidence(ran.folder / "evidence"), ran.record)["performance"]["client"]
    assert client["connect_wait_ns"]["n"] == len(opened)
    lags = [row["issued_ns" if row["connection_new"] else "sent_ns"] - row["scheduled_ns"] for row in rows]
    assert client["send_lag_ns"]["max_ns"] == max(lags)


def test_a_wall_clock_that_is_moved_during_the_run_is_found(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved_ns = [0]
    real = environment.time.time_ns
    monkeypatch.setattr(environment.time, "time_ns", lambda: real() + moved_ns[0])

    def move(progress: Progress) -> None:
        if progress.stage == "performance":
            moved_ns[0] = -3_600_000_000_000

    job = bench.job("SingleStream", bench.sut(ttft_ms=2))
    execute(job, progress=move, stop=StopSignal())
    record = bench.read(job.out).record
    assert judged(job.out, record)["wall-clock"] == "fail"
    wall = record["metrics"]["performance"]["client"]["wall_clock"]
    assert abs(wall["step_ns"] - 3_600_000_000_000) < 10**9
    moved_ns[0] = 0
    still = bench.run("SingleStream", bench.sut(ttft_ms=2))
    assert judged(still.folder, still.record)["wall-clock"] == "pass"
