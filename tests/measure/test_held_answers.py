"""The test of answers under load against those of the accuracy run: by hand, and at its stated level."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fairmark.measure.held_answers import ALARM_LOG10, MARGIN, held_answers, log10_capital


def test_capital_by_hand():
    """Twenty equal bets of k / 21 of the most that can be staked, on one full drop and one full gain."""
    shares = [k / 21 / (1 + MARGIN) for k in range(1, 21)]
    won = [1 + share * (1 - MARGIN) for share in shares]
    lost = [w * (1 + share * (-1 - MARGIN)) for w, share in zip(won, shares, strict=True)]
    capital = 10 ** log10_capital(np.array([1.0, -1.0]))
    assert capital == pytest.approx([sum(won) / 20, sum(lost) / 20])


def test_rows_are_bet_on_once_with_the_mean_of_their_answers():
    accuracy = [(0, 1.0), (1, 1.0), (2, 0.0)]
    performance = [(1, 0.0), (0, 1.0), (1, 1.0), (7, 0.0)]
    found = held_answers(accuracy, performance)
    assert (found["rows"], found["mean_drop"]) == (2, 0.25)
    assert found["log10_capital"] == pytest.approx(float(log10_capital(np.array([0.5, 0.0]))[-1]))
    assert found["reasons"] == {"alarm_after_rows": "the capital never reached the alarm"}


def test_wrong_answers_under_load_are_found():
    accuracy = [(row, 1.0) for row in range(200)]
    found = held_answers(accuracy, [(row, float(row % 4 > 0)) for row in range(200)])
    assert found["peak_log10_capital"] > ALARM_LOG10
    assert found["alarm_after_rows"] < 100
    same = held_answers(accuracy, accuracy)
    assert (same["peak_log10_capital"], same["alarm_after_rows"]) == (0.0, None)


def test_ten_thousand_rows_of_total_failure_stay_finite():
    found = held_answers([(row, 1.0) for row in range(10_000)], [(row, 0.0) for row in range(10_000)])
    assert math.isfinite(found["log10_capital"])


def test_what_cannot_be_compared():
    assert "undefined" in held_answers(None, [(0, 1.0)])
    assert "undefined" in held_answers([(1, 1.0)], [(0, 1.0)])


@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_honest_systems_are_rarely_accused(noise):
    """Answers that change at random, and as often for the better, with the drop at the margin itself."""
    random = np.random.default_rng(11)
    alarms = 0
    for _ in range(2000):
        changed = random.random(300) < noise
        worse = random.random(300) < 0.5 + 0.5 * MARGIN / noise
        drops = np.where(changed, np.where(worse, 1.0, -1.0), 0.0)
        alarms += bool(log10_capital(drops).max() >= ALARM_LOG10)
    assert alarms <= 30  # 20 are expected at most; 30 is 2.2 standard deviations more
