"""The client's own part, and whether the plan was delivered."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from fairmark.measure.delivery import distance_from

MS = 1_000_000


def query(at_ms, *, issued_us=0, sent_us=0, **more):
    at = at_ms * MS
    return {
        "scheduled_ns": at,
        "issued_ns": at + issued_us * 1000,
        "sent_ns": at + sent_us * 1000,
        "completed_ns": at + 10 * MS,
    } | more


def test_send_lag_counts_from_the_schedule_only_where_there_is_one(evidence_of, facts_of, measured):
    rows = [query(100 * i, issued_us=500, sent_us=700) for i in range(4)]
    lag = {
        kind: measured(evidence_of(rows), facts_of(kind))["client"]["send_lag_ns"]["p99_ns"]
        for kind in ("Server", "Offline", "Concurrency")
    }
    assert lag == {"Server": 700_000, "Offline": 200_000, "Concurrency": 200_000}


@pytest.mark.parametrize(
    ("constraints", "limit_ns"),
    [
        ("", 1_000_000),
        ("ttft_ms = 50", 1_000_000),
        ("ttft_ms = 5000\ne2e_ms = 20000", 50_000_000),
        ("ttft_ms = 5000\ntpot_ms = 150", 1_500_000),
    ],
)
def test_lag_limit_is_one_percent_of_the_tightest_bound(
    constraints, limit_ns, evidence_of, facts_of, measured
):
    found = measured(evidence_of([query(0)]), facts_of(constraints=constraints))
    assert found["client"]["send_lag_limit_ns"] == limit_ns


def test_health_counts_inside_the_window_only(evidence_of, facts_of, measured):
    health = [
        {"worker": 0, "t_ns": t * MS, "name": name, "value": value}
        for t, name, value in (
            (-5, "loop_stall_ns", 9e6),
            (3, "loop_stall_ns", 2e6),
            (4, "loop_stall_ns", 3e6),
            (5, "cpu_fraction", 0.75),
            (500, "gc_pause_ns", 8e6),
        )
    ]
    found = measured(evidence_of([query(0)], health=health), facts_of())["client"]
    assert found["loop_stall_max_ns"] == 3_000_000
    assert found["cpu_max"] == 0.75
    assert found["gc_pause_max_ns"] is None
    assert found["reasons"]["gc_pause_max_ns"] == "no pause was recorded"


def test_ceiling_and_each_worker(evidence_of, facts_of, measured):
    rows = [query(0, sent_us=10, worker=0), query(100, sent_us=900, worker=1)]
    workers = [{"worker": w, "ceiling": {"qps": 20.0}} for w in (0, 1)]
    found = measured(evidence_of(rows, workers=workers), facts_of())["client"]
    assert (found["ceiling_qps"], found["ceiling_share"]) == (40.0, 0.25)
    assert [w["send_lag_p99_ns"] for w in found["workers"]] == [10_000, 900_000]


def test_every_way_to_miss_a_plan(evidence_of, facts_of, measured):
    plan = [
        {"phase": "performance", "seq": i, "query": i, "sample_index": i, "scheduled_ns": 100 * i * MS}
        for i in range(5)
    ]
    rows = [
        query(0, seq=0, sample_index=0),
        query(0, seq=0, sample_index=0),  # twice
        query(100, seq=1, sample_index=9),  # another sample
        query(201, seq=2, sample_index=2),  # another time
        query(300, seq=7, sample_index=3),  # not in the plan
        query(400, seq=4, sample_index=4, issued_us=-50),  # before its time
    ]
    found = measured(evidence_of(rows, plan=plan), facts_of())["delivery"]
    names = ("planned", "missing", "duplicates", "unplanned", "wrong_sample", "wrong_time", "issued_early")
    assert [found[name] for name in names] == [5, 1, 1, 1, 1, 1, 1]


def test_a_phase_that_began_before_the_epoch_is_on_time(evidence_of, facts_of, measured):
    plan = [
        {"phase": "accuracy", "seq": i, "query": i, "sample_index": i, "scheduled_ns": 100 * i * MS}
        for i in range(4)
    ]
    rows = [query(100 * i - 5000 + (i == 2), phase="accuracy") for i in range(4)]
    found = measured(evidence_of(rows, plan=plan), facts_of(), "accuracy")["delivery"]
    assert (found["missing"], found["wrong_time"]) == (0, 1)


@pytest.mark.parametrize(
    ("kind", "missing"), [("Server", 3), ("Offline", 3), ("SingleStream", 1), ("Concurrency", 1)]
)
def test_closed_loops_may_stop_but_not_skip(kind, missing, evidence_of, facts_of, measured):
    plan = [{"phase": "performance", "seq": i, "query": i, "sample_index": i} for i in range(5)]
    rows = [query(100 * i, seq=i, sample_index=i) for i in (0, 2)]
    assert measured(evidence_of(rows, plan=plan), facts_of(kind))["delivery"]["missing"] == missing


def test_few_gaps_are_not_evaluable(evidence_of, facts_of, measured):
    found = measured(evidence_of([query(100 * i) for i in range(459)]), facts_of())["delivery"]["gaps"]
    assert found == {"undefined": "not evaluable with fewer than 459 gaps (458); the lag is judged"}


def test_bunched_arrivals_are_not_poisson(evidence_of, facts_of, measured):
    rng = np.random.default_rng(1)
    planned = np.cumsum(rng.exponential(100 * MS, 1000)).astype(int)
    held = (planned // (1000 * MS) + 1) * 1000 * MS  # a client that wakes up once a second
    rows = [
        query(0, scheduled_ns=int(p), issued_ns=int(h), sent_ns=int(h), completed_ns=int(h) + MS)
        for p, h in zip(planned, held, strict=True)
    ]
    found = measured(evidence_of(rows), facts_of())["delivery"]["gaps"]
    assert found["ks_plan"] < 0.05
    assert found["ks_excess"] > 0.3
    assert found["cv"] > 1.5


@pytest.mark.parametrize(("process", "cv"), [("poisson", None), ("gamma", 0.5), ("gamma", 2.0)])
def test_distance_is_the_kolmogorov_smirnov_statistic(process, cv):
    gaps = np.random.default_rng(2).exponential(1e9, 700)
    shape = 1.0 if cv is None else 1 / cv**2
    expected = kstest(gaps, "gamma", args=(shape, 0, 1e9 / shape)).statistic
    assert distance_from(gaps, process=process, cv=cv, mean_ns=1e9) == pytest.approx(expected, abs=1e-12)


def test_distance_from_constant_gaps():
    gaps = np.full(1000, 100e6)
    assert distance_from(gaps, process="constant", cv=None, mean_ns=100e6) == 0.0
    gaps[:300] += 2e6
    assert distance_from(gaps, process="constant", cv=None, mean_ns=100e6) == 0.3


def test_each_worker_of_a_closed_loop_works_through_its_own_share(evidence_of, facts_of, measured):
    plan = [{"phase": "performance", "seq": i, "query": i, "sample_index": i} for i in range(12)]
    facts = facts_of("Concurrency", settings="concurrency = 2\nworkers = 2")

    def missing(*seqs):
        rows = [query(100 * i, seq=i, sample_index=i, worker=i % 2) for i in seqs]
        return measured(evidence_of(rows, plan=plan), facts)["delivery"]["missing"]

    assert missing(0, 1, 2, 3, 5, 7, 9) == 0  # the second worker came further
    assert missing(0, 1, 2, 5, 7) == 1  # it skipped its second query
    assert missing(1, 3, 4) == 2
