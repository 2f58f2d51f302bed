"""LoadGen's life cycle on the virtual clock; a test of a listed property bears its number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark_sim import SimQueueSUT

MS = 1_000_000


def queue(**options: Any) -> SimQueueSUT:
    return SimQueueSUT(SimQueueSUT.Options(**options))


def test_property_9_ten_minutes_at_100_a_second_are_60155_queries(bench) -> None:
    ran = bench.run(
        "Server",
        queue(service_ms=10.0),
        "run.min_query_count=100",
        "run.min_duration_s=600",
        "settings.target_qps=100",
    )
    table = ran.table().filter(pc.field("phase").cast("string") == "performance")
    issued, scheduled = table["issued_ns"].to_numpy(), table["scheduled_ns"].to_numpy()
    assert (len(issued), issued[-1]) == (60155, 600015404702)
    assert (issued == scheduled).all()
    assert (table["completed_ns"].to_numpy() - issued == 10 * MS).all()


def test_property_20_server_latency_counts_from_the_schedule(bench) -> None:
    """200 queries a second meet a system that takes 20 ms each, one at a time: latencies grow although the
    service time does not. Each is what Lindley's recursion on the planned arrivals gives, to the nanosecond.
    """
    ran = bench.run("Server", queue(service_ms=20.0, servers=1), "settings.target_qps=200")
    scheduled, completed = ran.column("scheduled_ns"), ran.column("completed_ns")
    free_ns = 0
    for due_ns, done_ns in zip(scheduled.tolist(), completed.tolist(), strict=True):
        free_ns = max(free_ns, due_ns) + 20 * MS
        assert done_ns == free_ns
    latencies = completed - scheduled
    assert latencies[-1] > 5 * latencies[0] == 100 * MS
    assert (ran.column("issued_ns") == scheduled).all()


def test_property_21_a_closed_loop_does_not_count_the_time_between_queries(bench) -> None:
    ran = bench.run(
        "Concurrency",
        queue(service_ms=7.0),
        "settings.concurrency=1",
        "arrivals.think_time_s=0.1",
    )
    issued, completed = ran.column("issued_ns"), ran.column("completed_ns")
    assert (completed - issued == 7 * MS).all()
    assert (issued[1:] - completed[:-1] == 100 * MS).all()
    assert set(ran.column("scheduled_ns")) == {None}


def test_property_22_offline_latency_counts_from_the_start_of_the_run(bench) -> None:
    ran = bench.run("Offline", queue(service_ms=3.0, servers=1))
    assert set(ran.column("scheduled_ns")) == {0}
    assert ran.column("completed_ns").tolist() == [3 * MS * (n + 1) for n in range(20)]
    assert len(set(ran.column("query"))) == 1


def test_property_23_responses_that_complete_together_have_one_stamp(bench) -> None:
    ran = bench.run("MultiStream", queue(service_ms=3.0))
    completed = ran.column("completed_ns").reshape(-1, 4)
    assert (completed == completed[:, :1]).all()
    assert (np.diff(completed[:, 0]) == 3 * MS).all()


@settings(max_examples=25, deadline=None)
@given(
    service_ms=st.integers(1, 40),
    min_duration_ms=st.integers(0, 500),
    min_queries=st.integers(1, 60),
)
def test_property_24_single_stream_stops_at_the_first_issue_past_both_floors(
    make_bench: Callable[[], Any], service_ms: int, min_duration_ms: int, min_queries: int
) -> None:
    ran = make_bench().run(
        "SingleStream",
        queue(service_ms=float(service_ms)),
        f"run.min_query_count={min_queries}",
        f"run.min_duration_s={min_duration_ms / 1000}",
        f"settings.target_qps={1000 / service_ms}",
    )
    # Query i goes out at i service times: the first index with i * service >= duration, and its count.
    expected = max(min_queries, math.ceil(min_duration_ms / service_ms) + 1)
    assert ran.outcome["stop_reason"] == "complete"
    issued = ran.column("issued_ns")
    assert issued.tolist() == [n * service_ms * MS for n in range(expected)]


def test_property_25_server_duration_is_judged_by_schedule_and_offline_by_latency(bench) -> None:
    slow = queue(service_ms=900.0)
    server = bench.run("Server", slow, "settings.target_qps=100", "run.min_duration_s=0.5")
    window = server.judged()["metrics"]["performance"]["window"]
    last = server.rows()[-1]
    assert window["judged_duration_ns"] == last["scheduled_ns"] < last["completed_ns"]
    offline = bench.run("Offline", slow, "settings.target_qps=100", "run.min_duration_s=0.5")
    assert offline.judged()["metrics"]["performance"]["window"]["judged_duration_ns"] == 900 * MS


def test_property_50_a_query_limit_ends_the_run_and_no_further_query_is_issued(bench) -> None:
    own = {
        "SingleStream": ["settings.target_qps=1000"],
        "Server": ["settings.target_qps=100"],
        "Concurrency": ["settings.target_qps=1000", "settings.concurrency=2"],
    }
    for kind, overrides in own.items():
        limits = ("run.min_query_count=20", "run.max_query_count=33", "run.min_duration_s=10")
        ran = bench.run(kind, queue(service_ms=5.0), *limits, *overrides)
        assert (len(ran.rows()), ran.outcome["stop_reason"]) == (33, "max_queries")


def test_property_50_a_duration_limit_ends_the_run_at_the_first_issue_past_it(bench) -> None:
    """LoadGen tests after it has issued (issue_query_controller.cc): one query goes out past the limit."""
    ran = bench.run(
        "Server",
        queue(service_ms=5.0),
        "run.min_query_count=100",
        "run.max_duration_s=0.4",
        "settings.target_qps=50",
    )
    assert ran.outcome["stop_reason"] == "max_duration"
    issued = ran.column("issued_ns")
    assert len(issued) < 100
    assert issued[-2] <= 400 * MS < issued[-1]
    planned = [row["scheduled_ns"] for row in ran.table("plan").to_pylist() if row["phase"] == "performance"]
    assert issued.tolist() == planned[: len(issued)]


@pytest.mark.parametrize(("limit", "issued", "reason"), [(4, 5, "max_outstanding"), (5, 20, "complete")])
def test_property_50_too_many_outstanding_queries_end_the_run(
    bench, limit: int, issued: int, reason: str
) -> None:
    """Five are in flight at once: with the limit at 4, the fifth is issued and is the last."""
    ran = bench.run(
        "Server",
        queue(service_ms=50.0),
        f"run.max_outstanding_queries={limit}",
        "arrivals.process=constant",
        "settings.target_qps=100",
    )
    assert (len(ran.rows()), ran.outcome["stop_reason"]) == (issued, reason)
    assert {row["failure"] for row in ran.rows()} == {None}


def test_property_53_a_hint_that_was_too_low_does_not_end_the_run(bench) -> None:
    """A hint of 50 ms and 200 ms to fill, against a SUT of 1 ms: LoadGen runs out of its 9 queries."""
    ran = bench.run(
        "SingleStream",
        queue(service_ms=1.0),
        "run.min_query_count=1",
        "run.min_duration_s=0.2",
        "settings.target_qps=20",
    )
    assert ran.outcome["stop_reason"] == "complete"
    assert ran.column("issued_ns").tolist() == [n * MS for n in range(201)]
    assert ran.record["plan"]["phases"][-1]["duration_ns"] == 9 * 50 * MS
    assert len(ran.rows("performance")) < ran.record["plan"]["phases"][-1]["queries"] == 400


@pytest.mark.parametrize(("min_queries", "issued"), [(1, 400), (400, 400), (401, 401)])
def test_property_53_a_plan_that_runs_out_ends_the_run_and_says_so(
    bench, min_queries: int, issued: int
) -> None:
    """No reserve is enough for an instant SUT."""
    ran = bench.run(
        "SingleStream",
        queue(service_ms=0.0),
        f"run.min_query_count={min_queries}",
        "run.min_duration_s=0.2",
        "settings.target_qps=20",
    )
    assert (len(ran.rows()), ran.outcome["stop_reason"]) == (issued, "plan_exhausted")


@pytest.mark.parametrize("kind", ["SingleStream", "MultiStream", "Server", "Offline", "Concurrency"])
def test_property_54_flush_is_called_once_per_phase_after_its_last_issue(bench, kind: str) -> None:
    told: list[str] = []

    class Told(SimQueueSUT):
        def flush(self) -> None:
            told.append("flush")

        def simulation(self, seed: int) -> Any:
            simulation = super().simulation(seed)
            issue = simulation.issue

            def noting(now_ns: int, seq: int, sample: Any) -> None:
                told.append("issue")
                issue(now_ns, seq, sample)

            simulation.issue = noting
            return simulation

    sut = Told(SimQueueSUT.Options(service_ms=5.0))
    own = ["settings.concurrency=3"] if kind == "Concurrency" else []
    ran = bench.run(kind, sut, "settings.target_qps=100", *own)
    warmup, measured = len(ran.rows("warmup")), len(ran.rows())
    assert told == ["issue"] * warmup + ["flush"] + ["issue"] * measured + ["flush"]


def test_property_55_every_issued_sample_is_awaited_and_the_unfinished_are_named(bench) -> None:
    """Every third query never ends. LoadGen would wait forever; here each has its time-out and its row."""
    ran = bench.run("Server", queue(service_ms=5.0, stall_every=3), "settings.target_qps=100")
    rows = ran.rows("warmup") + ran.rows()
    assert len(ran.rows()) == 20
    for number, row in enumerate(rows, start=1):
        expected = "timeout" if number % 3 == 0 else None
        assert row["failure"] == expected
        assert row["completed_ns"] - row["issued_ns"] == (5000 * MS if expected else 5 * MS)
    assert ran.outcome["stop_reason"] == "complete"
    assert ran.outcome["phases"][-1]["completed"] == sum(row["failure"] is None for row in ran.rows())


def test_a_submission_is_accuracy_then_warm_up_then_performance(bench) -> None:
    ran = bench.run("Server", queue(service_ms=5.0), "settings.target_qps=100", mode="submission")
    phases = ran.outcome["phases"]
    assert [phase["phase"] for phase in phases] == ["accuracy", "warmup", "performance"]
    assert sorted(ran.column("sample_index", "accuracy")) == list(range(64))
    assert phases[2]["started_ns"] == 0 == min(ran.column("scheduled_ns"))
    # One phase begins when the one before it is drained.
    for before, after in itertools.pairwise(phases):
        assert before["ended_ns"] == after["started_ns"]
        ended = max(ran.column("completed_ns", before["phase"]))
        assert ended == before["ended_ns"]


def test_a_warm_up_of_a_constant_system_ends_as_steady_after_two_blocks(bench) -> None:
    ran = bench.run("SingleStream", queue(service_ms=5.0), "warmup.steady=true")
    phase = ran.outcome["phases"][0]
    assert (phase["stop_reason"], phase["completed"]) == ("steady", 32)


def test_a_warm_up_ends_at_its_longest_duration(bench) -> None:
    ran = bench.run("SingleStream", queue(service_ms=500.0), "warmup.max_duration_s=1.0", "warmup.queries=30")
    phase = ran.outcome["phases"][0]
    assert (phase["stop_reason"], phase["completed"]) == ("max_duration", 2)
    assert ran.outcome["stop_reason"] == "complete"
