"""Failures, empty runs and windows: every number is right, or null with a reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy import array, int64

from fairmark.measure.constraint import at_percentile

MS = 1_000_000
KINDS = ("SingleStream", "MultiStream", "Server", "Offline", "Concurrency")
BOUNDS = "percentile = 90\nttft_ms = 20\ntpot_ms = 10\ne2e_ms = 2000"


def query(at_ms, done_ms, *, failure=None, **more):
    """A query sent at ``at_ms`` and answered, or failed, at ``done_ms``."""
    row = {
        "scheduled_ns": at_ms * MS,
        "issued_ns": at_ms * MS,
        "sent_ns": at_ms * MS,
        "completed_ns": done_ms * MS,
        "failure": failure,
    }
    if failure is None:
        row |= {"first_byte_ns": at_ms * MS, "first_token_ns": at_ms * MS, "last_token_ns": done_ms * MS}
        row |= {"input_tokens": 10, "output_tokens": 10}
    return row | more


def test_failures_are_not_fast_queries(case, evidence_of, facts_of, measured):
    m09 = case("M09")
    records, wall = m09["input"]["records"], m09["input"]["wall_s"]
    starts = [round(i * (wall - 1) * 1000 / (len(records) - 1)) for i in range(len(records))]
    fast_last = sorted(records, key=lambda r: not r["ok"], reverse=True)  # a success ends the run
    rows = [
        query(at, at + round(r["e2e_s"] * 1000), failure=None if r["ok"] else "http_status")
        for at, r in zip(starts, fast_last, strict=True)
    ]
    found = measured(evidence_of(rows), facts_of(constraints="percentile = 95\ne2e_ms = 2000"))
    expect = m09["expect"]
    assert found["window"]["duration_ns"] == wall * 1000 * MS
    assert found["rates"]["qps"] == pytest.approx(expect["success_qps"])
    assert found["rates"]["attempt_qps"] == pytest.approx(expect["attempt_qps"])
    assert found["counts"]["failure_rate"] == pytest.approx(expect["error_rate"])
    assert found["latency"]["e2e_ns"]["from_schedule"]["p95_ns"] == expect["p95_success_s"] * 1e9
    bound = found["constraint"]["bounds"]["e2e"]
    assert bound["at_percentile_ns"] is None
    assert bound["reasons"]["at_percentile_ns"] == "infinite: too many queries failed"
    assert (bound["over"], bound["failed"], bound["over_allowed"]) == (10, 10, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_all_failed(case, kind, evidence_of, facts_of, measured):
    records = case("M10")["input"]["records"]
    rows = [query(6 * i, 6 * i + 6, failure="connect", sent_ns=None) for i in range(len(records))]
    found = measured(evidence_of(rows), facts_of(kind, constraints=BOUNDS))
    assert found["rates"]["qps"] == 0.0
    assert found["counts"]["failure_rate"] == 1.0
    assert found["latency"]["e2e_ns"] == {"undefined": "no sample succeeded"}
    assert found["rates"]["reasons"]["output_tokens_per_s"] == "no sample succeeded"
    waiting = "no sample was sent on a connection that was there"
    assert found["client"]["send_lag_ns"] == {"undefined": waiting}
    assert found["constraint"]["bounds"]["ttft"]["over"] == len(records)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_issued(kind, evidence_of, facts_of, measured):
    plan = [{"phase": "performance", "seq": 0, "query": 0, "sample_index": 0, "scheduled_ns": 0}]
    found = measured(evidence_of([], plan=plan), facts_of(kind, constraints=BOUNDS))
    assert found["counts"]["failure_rate"] is None
    assert found["window"] == {"undefined": "nothing was issued"}
    assert found["latency"]["ttft_ns"] == {"undefined": "nothing was issued"}
    assert found["delivery"]["planned"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_query(kind, evidence_of, facts_of, measured):
    found = measured(evidence_of([query(0, 50)]), facts_of(kind, constraints=BOUNDS))
    assert found["latency"]["e2e_ns"]["from_schedule"]["p99_ns"] == 50 * MS
    assert found["rates"]["qps"] == pytest.approx(20.0)
    assert found["rates"]["offered_qps"] is None
    assert found["rates"]["steady"] == {"undefined": "no query was issued after the first completion"}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_stamps(kind, evidence_of, facts_of, measured):
    found = measured(evidence_of([query(0, 0) for _ in range(50)]), facts_of(kind, constraints=BOUNDS))
    assert found["latency"]["e2e_ns"]["from_schedule"]["max_ns"] == 0
    assert found["rates"]["qps"] is None
    assert found["rates"]["reasons"]["qps"] == "the window has no length"
    assert found["concurrency"] == {"undefined": "the window has no length"}


def test_clock_going_backwards_is_counted(make_phase):
    rows = [query(0, 50), query(100, 90), query(200, 250, sent_ns=199 * MS)]
    found = make_phase(rows)
    assert found["counts"]["out_of_order"] == 2
    assert found["concurrency"]["identity_residual"] > 1e-6


def test_a_query_that_never_ended_is_aborted(make_phase):
    found = make_phase([query(0, 50), query(10, 0, completed_ns=None)])
    assert found["counts"]["by_failure"] == {"aborted": 1}
    assert found["window"]["last_issued_done_ns"] is None


def test_warm_up_never_counts(evidence_of, facts_of, measured):
    rows = [query(-100, -50, phase="warmup", seq=0), query(0, 10, seq=1), query(100, 110, seq=2)]
    found = measured(evidence_of(rows), facts_of())
    assert found["counts"]["issued"] == 2
    assert found["window"]["start_ns"] == 0


def test_numerator_and_denominator_share_a_window(make_phase):
    """Three serial queries of 1 s with 10 tokens each are 10 tokens/s, not 15."""
    found = make_phase([query(1000 * i, 1000 * (i + 1)) for i in range(3)])
    assert found["rates"]["output_tokens_per_s"] == pytest.approx(10.0)
    assert found["rates"]["total_tokens_per_s"] == pytest.approx(20.0)


def test_whole_window_and_loadgens(case, make_phase):
    """A published result: the query issued last is done long before the run is."""
    m15 = case("M15")["input"]
    scale = 10_000  # of the published log, in samples
    n = m15["n"] // scale
    rows = [query(i, i + 1, completed_ns=m15["duration_ns"]) for i in range(n - 1)]
    rows.append(query(n, n + 1, completed_ns=m15["first_issue_to_last_issued_query_done_ns"]))
    found = make_phase(rows)
    expect = case("M15")["expect"]
    assert found["rates"]["qps"] * scale == pytest.approx(expect["qps_native"], rel=1e-6)
    assert found["window"]["last_issued_done_ns"] == m15["first_issue_to_last_issued_query_done_ns"]


def test_duration_floor_counts_what_loadgen_counts(evidence_of, facts_of, measured):
    rows = [query(0, 70), query(30, 90, issued_ns=40 * MS), query(50, 60, issued_ns=55 * MS)]
    duration = {
        kind: measured(evidence_of(rows), facts_of(kind))["window"]["judged_duration_ns"] for kind in KINDS
    }
    assert duration["Server"] == 50 * MS  # the last scheduled time
    assert duration["Offline"] == 90 * MS  # the largest latency
    assert duration["SingleStream"] == 55 * MS  # the last issue


def test_goodput_keeps_failures_in_the_denominator(evidence_of, facts_of, measured):
    rows = [query(0, 50), query(100, 400), query(500, 510, failure="rejected"), query(900, 1000)]
    facts = facts_of(more="[classes.fast]\npercentile = 50\ne2e_ms = 100")
    found = measured(evidence_of(rows), facts)["classes"]["fast"]
    assert (found["good"], found["good_share"]) == (2, 0.5)
    assert found["goodput_qps"] == pytest.approx(2.0)
    assert found["excess"] == 2 - (4 - 1 - 2)


@given(st.lists(st.integers(1, 100), max_size=50), st.integers(0, 10), st.sampled_from([0.5, 0.9, 0.99]))
def test_counting_the_over_is_loadgens_percentile_test(values, failed, fraction):
    """sorted[int(n p)] <= bound, with failures as infinite, if and only if over <= n - 1 - int(n p)."""
    n = len(values) + failed
    if n == 0:
        return
    found = at_percentile(array(values, dtype=int64), failed, fraction)
    ordered = sorted([*values, *[float("inf")] * failed])[int(n * fraction)]
    assert found == (None if ordered == float("inf") else ordered)
    for bound in (1, 30, 99):
        over = failed + sum(v > bound for v in values)
        assert (ordered <= bound) == (over <= n - 1 - int(n * fraction))
