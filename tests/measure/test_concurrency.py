"""Little's law, as an identity of the log and against the server."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.measure.concurrency import integrate_in_flight

MS = 1_000_000


def stamps(start_ms, end_ms, **more):
    return {
        "scheduled_ns": start_ms * MS,
        "issued_ns": start_ms * MS,
        "sent_ns": start_ms * MS,
        "completed_ns": end_ms * MS,
    } | more


def test_by_hand(make_phase):
    # 0..40 and 10..30 overlap for 20 ms; 60..100 is alone: 100 sample-ms over 100 ms.
    found = make_phase([stamps(0, 40), stamps(10, 30), stamps(60, 100)])["concurrency"]
    assert found["mean_in_flight"] == pytest.approx(1.0)
    assert found["max_in_flight"] == 2
    assert found["arrival_qps"] == pytest.approx(30.0)
    assert found["mean_sojourn_ns"] == pytest.approx(100 / 3 * MS)
    assert found["naive_residual"] == pytest.approx(0.0)


def test_failures_are_in_flight_too_and_the_naive_law_misses_them(make_phase):
    found = make_phase([stamps(0, 100), stamps(0, 100, failure="timeout")])["concurrency"]
    assert found["mean_in_flight"] == pytest.approx(2.0)
    assert found["naive_residual"] == pytest.approx(0.5)


def test_published_single_stream_run(case, make_phase):
    m16 = case("M16")["input"]
    idle = m16["duration_ns"] - m16["sum_latency_ns"]
    half = m16["sum_latency_ns"] // 2
    first, second = stamps(0, 0, completed_ns=half), stamps(0, 0)
    second |= dict.fromkeys(("scheduled_ns", "issued_ns", "sent_ns"), half + idle)
    second["completed_ns"] = m16["duration_ns"]
    found = make_phase([first, second])["concurrency"]
    assert found["mean_in_flight"] == pytest.approx(case("M16")["expect"]["L"], abs=1e-6)
    assert found["max_in_flight"] == 1


def gauges(source, t_ms, **values):
    return [
        {"source": source, "t_ns": t * MS, "name": f"requests_{name}", "value": value}
        for t in t_ms
        for name, value in values.items()
    ]


def served(evidence_of, facts_of, measured, rows, telemetry):
    return measured(evidence_of(rows, telemetry=telemetry), facts_of())["concurrency"]["server"]


def test_a_hidden_queue_shows_against_the_servers_gauges(evidence_of, facts_of, measured):
    before_the_window = gauges("s", [-10], running=9.0, waiting=9.0)
    telemetry = before_the_window + gauges("s", [20, 80], running=1.0, waiting=0.5)
    found = served(evidence_of, facts_of, measured, [stamps(0, 100), stamps(0, 100)], telemetry)
    assert found == {
        "mean_running": 1.0,
        "mean_waiting": 0.5,
        "mean_in_flight": 2.0,
        "gap": pytest.approx(0.25),
        "samples": 2,
        "reasons": {},
    }


def test_the_client_is_asked_at_the_same_instants_as_the_server(evidence_of, facts_of, measured):
    # In flight are 2 for a tenth of the time and else 1; both looks fall into the tenth.
    rows = [stamps(0, 100), stamps(40, 50)]
    found = served(evidence_of, facts_of, measured, rows, gauges("s", [42, 48], running=2.0))
    assert (found["mean_in_flight"], found["gap"]) == (2.0, 0.0)
    assert (found["mean_waiting"], list(found["reasons"])) == (None, ["mean_waiting"])


def test_servers_behind_several_endpoints_add_up(evidence_of, facts_of, measured):
    telemetry = gauges("server-0", [20, 60], running=1.0) + gauges("server-1", [30], running=1.0)
    found = served(evidence_of, facts_of, measured, [stamps(0, 100), stamps(0, 100)], telemetry)
    assert (found["mean_running"], found["gap"], found["samples"]) == (2.0, 0.0, 3)


def test_looks_at_an_idle_system_compare_nothing(evidence_of, facts_of, measured):
    rows = [stamps(0, 10), stamps(90, 100)]
    found = served(evidence_of, facts_of, measured, rows, gauges("s", [50], running=0.0))
    assert "nothing was in flight" in found["undefined"]


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=50))
def test_the_sweep_equals_the_sum_of_sojourns(spans):
    start = np.array([s for s, _ in spans], dtype=np.int64)
    end = start + np.array([d for _, d in spans], dtype=np.int64)
    area, most = integrate_in_flight(start, end)
    assert area == pytest.approx(float((end - start).sum()), rel=1e-12, abs=1e-3)
    naive = max(int(((start <= t) & (end > t)).sum()) for t in start)
    assert most == naive
