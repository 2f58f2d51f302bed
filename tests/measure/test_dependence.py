"""Effective sample sizes against sequences whose dependence is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.measure.dependence import effective_size, variance_inflation
from fairmark.measure.distribution import interval, percentile


def sticky(rng, n, stay):
    """A two-state chain, half the time in each; tau = (1 + rho) / (1 - rho) with rho = 2 stay - 1."""
    flips = rng.random(n) > stay
    return (np.cumsum(flips) % 2).astype(bool)


@pytest.mark.parametrize(("stay", "tau"), [(0.5, 1.0), (0.75, 3.0), (0.95, 19.0)])
def test_effective_size_of_a_markov_chain(stay, tau):
    rng = np.random.default_rng(1)
    n = 40_000
    found = np.mean([effective_size(sticky(rng, n, stay)) for _ in range(5)])
    assert n / found == pytest.approx(tau, rel=0.15)


@given(st.lists(st.booleans(), min_size=2, max_size=400), st.integers(1, 30))
def test_effective_size_by_its_definition(values, repeat):
    indicator = np.repeat(np.array(values), repeat)  # runs make the sum of lags long
    n, x = len(indicator), indicator - indicator.mean()
    variance = float(x @ x)
    if variance == 0:
        return
    correlations = [float(x[: n - lag] @ x[lag:]) / variance for lag in range(n)]
    total = 0.0
    for lag in range(0, n - 1, 2):
        pair = correlations[lag] + correlations[lag + 1]
        if abs(pair) < 1e-9:
            return  # rounding decides here what integers decide there
        if pair <= 0:
            break
        total += pair
    assert effective_size(indicator) == pytest.approx(n / max(2 * total - 1, 1.0), rel=1e-6)


def test_a_constant_sequence_and_an_alternating_one_get_n():
    assert effective_size(np.zeros(100, dtype=bool)) == 100
    assert effective_size(np.arange(100) % 2 == 0) == 100


def test_variance_inflation_of_a_chain():
    rng = np.random.default_rng(2)
    found = np.mean([variance_inflation(sticky(rng, 20_000, 0.75), 20) for _ in range(20)])
    assert found == pytest.approx(3.0, rel=0.25)
    assert variance_inflation(np.zeros(100, dtype=bool), 20) == 1.0
    with pytest.raises(ValueError, match="do not fill"):
        variance_inflation(np.zeros(39, dtype=bool), 20)


def test_intervals_cover_the_truth_when_queries_are_independent():
    rng = np.random.default_rng(3)
    true_p90 = int(1e6 * -np.log(0.1))
    covered = 0
    for _ in range(300):
        ordered = np.sort((rng.exponential(1e6, 500)).astype(np.int64))
        found = interval(ordered, 0.9, 500.0)
        covered += found["low_ns"] <= true_p90 <= found["high_ns"]
    assert 0.92 <= covered / 300 <= 0.99


def test_intervals_widen_with_dependence_and_vanish_without_data():
    ordered = np.arange(10_000, dtype=np.int64)
    narrow, wide = interval(ordered, 0.9, 10_000.0), interval(ordered, 0.9, 500.0)
    assert wide["low_ns"] < narrow["low_ns"] <= 9000 <= narrow["high_ns"] < wide["high_ns"]
    assert "below 10" in interval(ordered, 0.99, 500.0)["undefined"]


def sojourns(rng, n, load):
    """Times in an M/M/1 queue in steady state, by Lindley's recursion; they are exponential."""
    settle = 5_000
    gap, service = rng.exponential(1, n + settle), rng.exponential(load, n + settle)
    walk = np.concatenate([[0], np.cumsum(service[:-1] - gap[1:])])
    return (walk - np.minimum.accumulate(walk) + service)[settle:]


def test_intervals_cover_when_queries_queue_and_the_textbook_ones_do_not():
    rng = np.random.default_rng(6)
    true_p90 = -np.log(0.1) / (1 / 0.5 - 1) * 1e9
    ours = textbook = 0
    for _ in range(100):
        values = (sojourns(rng, 10_000, 0.5) * 1e9).astype(np.int64)
        ordered = np.sort(values)
        n_eff = effective_size(values >= percentile(ordered, 0.9))
        for n in (n_eff, 10_000.0):
            found = interval(ordered, 0.9, n)
            covers = found["low_ns"] <= true_p90 <= found["high_ns"]
            ours, textbook = ours + covers * (n == n_eff), textbook + covers * (n != n_eff)
    assert ours >= 85
    assert textbook <= 75
