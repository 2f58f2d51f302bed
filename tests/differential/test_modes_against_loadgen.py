"""What LoadGen's rarer settings do to order, times and counts: coalescing, async limit, find-peak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traffic.find_peak import find_peak

from fairmark.drive.policy import Limits, OpenLoop
from fairmark.measure.loadgen import LoadGenLimits, LoadGenRun, loadgen_results
from fairmark.scenario.model import Seeds
from fairmark.traffic.plan import make_plan
from fairmark.traffic.settings import TrafficSettings

pytestmark = [pytest.mark.differential, pytest.mark.timeout(0)]

FEWER = max(20, settings.get_profile("differential").max_examples // 10)
SEEDS = Seeds(11, 12, 13)
BOUND_NS = 1_000_000_000


def server(qps: float, queries: int) -> TrafficSettings:
    return TrafficSettings(
        scenario="Server",
        mode="performance",
        total_sample_count=50,
        performance_sample_count=40,
        accuracy_sample_count=50,
        target_qps=qps,
        min_duration_ns=0,
        min_query_count=queries,
        seeds=SEEDS,
    )


def case(s: TrafficSettings, mode: str = "PerformanceOnly", **more: Any) -> dict[str, Any]:
    values = {
        "min_duration_ms": 0,
        "min_query_count": s.min_query_count,
        "server_target_qps": s.target_qps,
        "server_target_latency_ns": BOUND_NS,
        "qsl_rng_seed": SEEDS.qsl,
        "sample_index_rng_seed": SEEDS.sample_index,
        "schedule_rng_seed": SEEDS.schedule,
    }
    told = {name: more.pop(name) for name in ("delays_us", "hold", "first_us") if name in more}
    return {
        "scenario": "Server",
        "mode": mode,
        "total": 50,
        "performance": 40,
        "delays_us": [0],
        "settings": values | more,
        **told,
    }


@settings(settings.get_profile("differential"), max_examples=FEWER)
@given(
    planned=st.builds(server, st.floats(1000.0, 20000.0), st.integers(1, 150)),
    delays_us=st.lists(st.sampled_from([0, 50, 500, 3000]), min_size=1, max_size=4),
)
def test_property_51_coalescing_merges_calls_and_nothing_else(
    loadgen: Any, planned: TrafficSettings, delays_us: list[int]
) -> None:
    """Order, scheduled times and counts are the plan's; every query keeps a latency of its own, from its own
    scheduled time, and the queries of a call share the time they were issued. None was due later.
    """
    run = loadgen.run(case(planned, server_coalesce_queries=True, delays_us=delays_us))
    plan = make_plan(planned)
    calls = run.answer["queries"]
    assert [index for call in calls for index in call] == plan.sample_index.tolist()
    assert run.query.tolist() == list(range(plan.query_count))
    due = run.scheduled_ns - run.scheduled_ns[0]
    assert due.tolist() == plan.scheduled_ns.tolist()
    issued = due + run.issue_delay_ns
    assert (run.issue_delay_ns >= 0).all()
    ends = np.cumsum([len(call) for call in calls])
    for part in np.split(issued, ends[:-1]):
        assert len(set(part.tolist())) == 1
    results = loadgen_results(
        LoadGenRun(
            latencies_ns=run.latency_ns,
            queries_issued=plan.query_count,
            final_scheduled_ns=int(due[-1]),
            final_issued_ns=int(issued[-1]),
            final_done_ns=int(due[-1] + run.latency_ns[-1]),
        ),
        LoadGenLimits("Server", 0.99, 0, planned.min_query_count, planned.min_query_count, BOUND_NS),
    )
    assert run.one("result_query_count") == results["result_query_count"]
    for key in (
        "result_min_latency_ns",
        "result_max_latency_ns",
        "result_mean_latency_ns",
        "result_validity",
    ):
        assert run.one(key) == results[key], key


def test_property_51_late_queries_are_merged(loadgen: Any) -> None:
    planned = server(2000.0, 60)
    calls = loadgen.run(case(planned, server_coalesce_queries=True, delays_us=[3000]))
    merged = [len(call) for call in calls.answer["queries"]]
    assert (merged[0], sum(merged)) == (1, 60)
    assert max(merged) > 1


@pytest.mark.parametrize(("limit", "hold"), [(1, 3), (3, 5), (5, 5), (8, 5)])
def test_property_50_the_async_limit_as_loadgen_takes_it(loadgen: Any, limit: int, hold: int) -> None:
    """A system that keeps ``hold`` queries: LoadGen and our policy issue as many, and both say why."""
    planned = server(2000.0, 60)
    run = loadgen.run(case(planned, server_max_async_queries=limit, hold=hold))
    policy = OpenLoop(make_plan(planned).scheduled_ns.tolist(), Limits(max_outstanding=limit))
    issued = 0
    while policy.ended is None:
        issued += 1
        # The child answers inside the call, before LoadGen counts.
        if issued > hold:
            policy.completed(0, 0)
        policy.issue(policy.due_ns() or 0)
    assert len(run.answer["queries"]) == issued
    assert [("Too many outstanding" in error) for error in run.errors] == [True] * (
        policy.ended != "complete"
    )


SLOW_US = 1_200_000


@pytest.mark.parametrize(
    ("base", "step", "decimals", "holds"),
    [
        (500.0, 1, 0, [True, True, False, True, False, True]),
        (700.0, 1, 1, [True, False, False, False, True]),
        (333.3, 2, 0, [True, True, True, False, True, True, False]),
        (900.0, 1, 0, [False]),
    ],
)
def test_property_52_find_peak_tries_the_same_rates(
    loadgen: Any, base: float, step: int, decimals: int, holds: list[bool]
) -> None:
    """Whether a probe holds is fixed by its number (later ones do); the plan LoadGen generates for a probe,
    to the nanosecond, tells its rate. One sample over the bound is enough, since p99 of 8 is their maximum.
    """
    planned = server(base, 8)
    verdicts = iter(holds)
    search = find_peak(lambda qps: next(verdicts, True), base, decimals=decimals, step=step)
    run = loadgen.run(
        case(
            planned,
            "FindPeakPerformance",
            first_us=[0 if held else SLOW_US for held in holds],
            server_find_peak_qps_decimals_of_precision=decimals,
            server_find_peak_qps_boundary_step_size=step,
        )
    )
    plans = [make_plan(replace(planned, target_qps=probe.qps)) for probe in search.probes]
    assert run.all("generated_query_duration") == [plan.generated_duration_ns for plan in plans]
    assert len(run.errors) == (0 if holds[0] else 1)
    # The one verdict printed is of the probe at the peak, by all four conditions: 8 queries are too few.
    peak = base if search.peak_qps is None else search.peak_qps
    last_ns = int(make_plan(replace(planned, target_qps=peak)).scheduled_ns[-1])
    assert run.one("result_scheduled_samples_per_sec") == pytest.approx(7 / (last_ns / 1e9), abs=0.006)
    assert run.one("result_perf_constraints_met") is holds[0]
    assert run.one("early_stopping_met") is False
    assert run.one("result_validity") == "INVALID"
    # The settings it logs are still those of the base.
    assert run.one("effective_target_qps") == pytest.approx(base, rel=1e-5)
    if search.peak_qps is not None:
        told = run.all("generic_message")[-1]
        assert told == f"FindPeakPerformance: Found peak performance field: {search.peak_qps:.6f}"
