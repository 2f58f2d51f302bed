"""Early stopping per scenario, and on effective sample sizes."""

from __future__ import annotations

import pytest

MS = 1_000_000


def rows(n, over=0, *, slow=(), failed=()):
    slow = set(slow) | set(range(over))
    return [
        {
            "scheduled_ns": i * 100 * MS,
            "issued_ns": i * 100 * MS,
            "sent_ns": i * 100 * MS,
            "completed_ns": i * 100 * MS + (50 if i in slow else 5) * MS + i,
            "failure": "timeout" if i in failed else None,
        }
        for i in range(n)
    ]


def server(percentile):
    return {"kind": "Server", "constraints": f"percentile = {percentile}\ne2e_ms = 10"}


def stopping(measured, evidence_of, facts_of, queries, **facts):
    return measured(evidence_of(queries), facts_of(**facts))["early_stopping"]


@pytest.mark.parametrize(("name", "percentile"), [("M01", 99), ("M02", 90)])
def test_queries_needed_with_so_many_over(case, name, percentile, measured, evidence_of, facts_of):
    published = case(name)
    pairs = zip(published["input"]["overlatency"], published["expect"]["min_queries"], strict=True)
    for over, needed in pairs:
        found = stopping(measured, evidence_of, facts_of, rows(40, over), **server(percentile))
        check = found["checks"]["e2e"]
        assert (check["over"], check["needed"], check["more_needed"]) == (over, needed, needed - 40)
        assert found["more_needed"] == needed - 40
        per_query_s = 3.905 / 40
        assert found["more_duration_s"] == pytest.approx((needed - 40) * per_query_s, rel=0.02)


def test_single_stream_needs_64_and_then_estimates(case, measured, evidence_of, facts_of):
    short = stopping(measured, evidence_of, facts_of, rows(63), kind="SingleStream")["checks"]["latency"]
    assert (short["needed"], short["more_needed"], short["estimate_ns"]) == (64, 1, None)
    enough = stopping(measured, evidence_of, facts_of, rows(64), kind="SingleStream")["checks"]["latency"]
    assert (enough["more_needed"], enough["discarded"]) == (0, 0)
    assert enough["estimate_ns"] == 5 * MS + 63
    m04 = case("M04")
    n, discarded = m04["input"][0]["n"], m04["expect"]["would_discard"][0]
    more = stopping(measured, evidence_of, facts_of, rows(n), kind="SingleStream")["checks"]["latency"]
    assert more["discarded"] == discarded
    assert more["estimate_ns"] == 5 * MS + n - 1 - discarded


def test_multi_stream_needs_662(measured, evidence_of, facts_of):
    found = stopping(measured, evidence_of, facts_of, rows(100), kind="MultiStream")
    assert found["more_needed"] == 562


def test_failed_queries_are_the_slowest(measured, evidence_of, facts_of):
    found = stopping(measured, evidence_of, facts_of, rows(64, failed=[3]), kind="SingleStream")
    assert found["checks"]["latency"]["estimate_ns"] is None
    assert found["checks"]["latency"]["reasons"]["estimate_ns"] == "infinite: too many queries failed"


def test_offline_and_unbounded_runs_have_none(measured, evidence_of, facts_of):
    assert "undefined" in stopping(measured, evidence_of, facts_of, rows(10), kind="Offline")
    found = stopping(measured, evidence_of, facts_of, rows(10), kind="Server")
    assert found == {"undefined": "the scenario has no latency bound to test"}


def test_slow_queries_in_a_row_count_for_less(measured, evidence_of, facts_of):
    n = 2000
    together = stopping(measured, evidence_of, facts_of, rows(n, slow=range(500, 600)), **server(90))
    apart = stopping(measured, evidence_of, facts_of, rows(n, slow=range(0, n, 20)), **server(90))
    assert together["checks"]["e2e"]["over"] == apart["checks"]["e2e"]["over"] == 100
    assert together["more_needed"] == apart["more_needed"] == 0
    assert apart["adjusted"]["e2e"]["vif"] == 1.0
    assert together["adjusted"]["e2e"]["vif"] > 50
    assert together["adjusted_more_needed"] > 0 == apart["adjusted_more_needed"]


def test_dependence_of_a_few_queries_is_not_guessed(measured, evidence_of, facts_of):
    found = stopping(measured, evidence_of, facts_of, rows(39), **server(90))
    assert found["adjusted_more_needed"] is None
    assert found["adjusted"]["e2e"] == {"undefined": "needs 40 queries, has 39"}
