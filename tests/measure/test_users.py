"""Users of a closed loop: waiting, thinking, away."""

from __future__ import annotations

import pytest

MS = 1_000_000


def row(issued_ms, done_ms):
    stamps = {
        "issued_ns": issued_ms,
        "sent_ns": issued_ms,
        "first_token_ns": done_ms,
        "completed_ns": done_ms,
    }
    return {name: at * MS for name, at in stamps.items()}


@pytest.fixture(scope="session")
def facts(facts_of):
    return facts_of("Concurrency", more="[arrivals]\nthink_time_s = 0.1")


def test_by_hand(evidence_of, facts, measured):
    # Two users for 1 s: one asks at 0 and 400, the other at 0 and 700; both think for 100 ms.
    rows = [row(0, 300), row(0, 600), row(400, 1000), row(700, 900)]
    users = measured(evidence_of(rows), facts)["users"]
    assert (users["configured"], users["think_ns"]) == (2, 100 * MS)
    assert (users["arrival_qps"], users["mean_sojourn_ns"]) == (4.0, (300 + 600 + 600 + 200) / 4 * MS)
    assert users["mean_think_ns"] == (100 + 100 + 0 + 100) / 4 * MS
    law = users["arrival_qps"] * (users["mean_sojourn_ns"] + users["mean_think_ns"]) / 1e9
    assert users["mean_there"] == pytest.approx(law) == pytest.approx(2.0)
    assert users["away_share"] == pytest.approx(0.0)


def test_a_user_that_stays_away_shows(evidence_of, facts, measured):
    rows = [row(0, 300), row(0, 600), row(400, 1000)]
    users = measured(evidence_of(rows), facts)["users"]
    assert users["mean_there"] == pytest.approx(1.7)
    assert users["away_share"] == pytest.approx(0.15)


def test_other_scenarios_have_no_users(make_phase):
    assert "undefined" in make_phase([{**row(0, 3), "scheduled_ns": 0}])["users"]
