"""What LoadGen would have printed, from evidence."""

from __future__ import annotations

import pytest

MS = 1_000_000


def rows(n, *, tokens=11, **more):
    """A query every 100 ms, first token after 10 ms, done after 110 ms; the last is issued 2 ms late."""
    found = []
    for i in range(n):
        at = i * 100 * MS
        late = 2 * MS if i == n - 1 else 0
        found.append(
            {
                "scheduled_ns": at,
                "issued_ns": at + late,
                "sent_ns": at + late,
                "first_token_ns": at + 10 * MS,
                "last_token_ns": at + 110 * MS,
                "completed_ns": at + 110 * MS,
                "input_tokens": 5,
                "output_tokens": tokens,
                **more,
            }
        )
    return found


def test_server_in_token_mode(evidence_of, facts_of, measured):
    facts = facts_of(constraints="percentile = 90\nttft_ms = 10\ntpot_ms = 10")
    found = measured(evidence_of(rows(64)), facts)["loadgen"]
    assert found["result_validity"] == "VALID"  # equality passes
    assert found["result_first_token_90.00_percentile_latency_ns"] == 10 * MS
    assert found["result_time_per_output_token_90.00_percentile_ns"] == 10 * MS
    assert found["result_scheduled_samples_per_sec"] == pytest.approx(10.0)
    assert found["result_completed_samples_per_sec"] == pytest.approx(63 / 6.41)
    assert found["result_completed_tokens_per_second"] == pytest.approx(64 * 11 / 6.41)


def test_single_stream_counts_from_the_issue(evidence_of, facts_of, measured):
    queries = rows(64, scheduled_ns=None)
    found = measured(evidence_of(queries), facts_of("SingleStream"))["loadgen"]
    assert found["result_qps_with_loadgen_overhead"] == pytest.approx(63 / 6.302)
    assert found["result_max_latency_ns"] == 110 * MS
    assert found["result_min_latency_ns"] == 108 * MS


def test_single_stream_with_equal_issue_has_loadgens_higher_minimum(evidence_of, facts_of, measured):
    """Property 17's numbers: 200 queries are expected, which rounds up to four sets of 64."""
    facts = facts_of("SingleStream", settings="target_qps = 1000")
    facts["scenario"]["run"] |= {"min_query_count": 70, "min_duration_s": 0.1, "sampling": "equal"}
    facts["scenario"]["samples"]["performance_sample_count"] = 64
    for queries, met in ((255, False), (256, True)):
        found = measured(evidence_of(rows(queries, scheduled_ns=None)), facts)["loadgen"]
        assert found["result_min_queries_met"] is met


def test_single_stream_with_equal_issue_needs_the_size_of_its_set(evidence_of, facts_of, measured):
    facts = facts_of("SingleStream")
    facts["scenario"]["run"]["sampling"] = "equal"
    found = measured(evidence_of(rows(4, scheduled_ns=None)), facts)["loadgen"]
    assert found["undefined"].startswith("the minimum of queries follows from the size")


def test_offline_takes_all_samples_as_one_query(evidence_of, facts_of, measured):
    queries = [{**row, "query": 0, "scheduled_ns": 0} for row in rows(10)]
    found = measured(evidence_of(queries), facts_of("Offline"))["loadgen"]
    assert found["result_samples_per_second"] == pytest.approx(10 / 1.01)
    assert found["result_tokens_per_second"] == pytest.approx(110 / 1.01)


def test_multi_stream_reports_queries(evidence_of, facts_of, measured):
    queries = [{**row, "query": i // 2} for i, row in enumerate(rows(8))]
    found = measured(evidence_of(queries), facts_of("MultiStream"))["loadgen"]
    assert found["result_max_query_latency_ns"] == 210 * MS
    assert found["result_max_latency_ns"] == 110 * MS


@pytest.mark.parametrize(
    ("kind", "constraints", "more", "reason"),
    [
        ("Concurrency", "", {}, "LoadGen has no such scenario"),
        ("Server", "e2e_ms = 5", {"failure": "timeout"}, "LoadGen knows no failed query"),
        ("Server", "ttft_ms = 5", {}, "LoadGen bounds either"),
        ("Server", "ttft_ms = 5\ntpot_ms = 5", {"first_token_ns": None}, "token latencies need"),
    ],
)
def test_what_loadgen_could_not_have_run(kind, constraints, more, reason, evidence_of, facts_of, measured):
    found = measured(evidence_of(rows(4, **more)), facts_of(kind, constraints=constraints))["loadgen"]
    assert found["undefined"].startswith(reason)
