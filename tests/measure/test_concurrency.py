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


def test_a_hidden_queue_shows_against_the_servers_gauges(evidence_of, facts_of, measured):
    telemetry = [
        {"source": "s", "t_ns": t * MS, "name": name, "value": value}
        for t in (-10, 20, 80)  # the first lies before the window
        for name, value in (("requests_running", 1.0 if t > 0 else 9.0), ("requests_waiting", 0.5))
    ]
    rows = [stamps(0, 100), stamps(0, 100)]
    found = measured(evidence_of(rows, telemetry=telemetry), facts_of())["concurrency"]["server"]
    assert found == {"mean_running": 1.0, "mean_waiting": 0.5, "gap": pytest.approx(0.25), "samples": 2}


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=50))
def test_the_sweep_equals_the_sum_of_sojourns(spans):
    start = np.array([s for s, _ in spans], dtype=np.int64)
    end = start + np.array([d for _, d in spans], dtype=np.int64)
    area, most = integrate_in_flight(start, end)
    assert area == pytest.approx(float((end - start).sum()), rel=1e-12, abs=1e-3)
    naive = max(int(((start <= t) & (end > t)).sum()) for t in start)
    assert most == naive
