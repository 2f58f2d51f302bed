"""Steadiness on queues of known truth: what is found, and how often wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from fairmark.measure.steady import backlog, drift, first_window, mser5


def queue(rng, n, load, servers=1):
    """A FIFO queue with Poisson arrivals, one a second; service times are gamma with cv 0.5."""
    arrive = np.cumsum(rng.exponential(1, n))
    service = rng.gamma(4, load * servers / 4, n)
    free, done = np.zeros(servers), np.empty(n)
    for i in range(n):
        k = int(free.argmin())
        free[k] = done[i] = max(free[k], arrive[i]) + service[i]
    return (arrive * 1e9).astype(np.int64), (done * 1e9).astype(np.int64)


def share(n, load, runs, is_found, seed=7):
    rng = np.random.default_rng(seed)
    return sum(is_found(*queue(rng, n, load)) for _ in range(runs)) / runs


def overloaded(arrive, done):
    """The condition of the rule `overload`."""
    found = backlog(arrive, done)
    return found["unserved_share"] > 0.25 and found["growth"] > 0.8 * found["growth_scale"]


def drifted(latency):
    """The condition of the rule `drift`."""
    found = drift(latency)
    return found["kendall_p"] < 0.01 and abs(found["half_change"]) > 0.05


def test_overload_is_found_even_in_short_runs():
    assert share(64, 3.0, 40, overloaded) >= 0.95
    assert share(300, 2.0, 20, overloaded) == 1.0


def test_a_busy_but_stable_system_is_not_called_overloaded():
    assert share(64, 0.6, 60, overloaded) <= 0.02
    assert share(300, 0.9, 30, overloaded) == 0.0


def test_unserved_share_is_one_minus_the_inverse_load():
    arrive, done = queue(np.random.default_rng(1), 4000, 3.0)
    assert backlog(arrive, done)["unserved_share"] == pytest.approx(1 - 1 / 3, abs=0.05)


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [
        (lambda x: x * np.linspace(1, 1.3, len(x)), 0.95, 1.0),
        (lambda x: x * np.where(np.arange(len(x)) < len(x) / 2, 1.0, 1.2), 0.6, 1.0),
        (lambda x: x, 0.0, 0.05),
        (lambda x: x * np.where(np.arange(len(x)) < len(x) / 20, 3.0, 1.0), 0.0, 0.05),
    ],
    ids=["drift", "step", "steady", "slow start"],
)
def test_drift(shape, low, high):
    rng = np.random.default_rng(3)
    results = [drifted(shape(rng.gamma(16, 1e6, 3000)).astype(np.int64)) for _ in range(20)]
    assert low <= np.mean(results) <= high


def test_mser5_cuts_a_slow_start_and_nothing_else():
    rng = np.random.default_rng(4)
    steady = rng.gamma(16, 1e6, 3000)
    slow = steady * np.where(np.arange(3000) < 150, 3.0, 1.0)
    assert mser5(slow.astype(np.int64))["truncated_queries"] == pytest.approx(150, abs=10)
    assert mser5(steady.astype(np.int64))["truncated_share"] < 0.05


def test_mser5_by_its_definition():
    rng = np.random.default_rng(5)
    values = rng.integers(1, 1000, 200)
    values[:30] += 5000
    means = values.reshape(-1, 5).mean(axis=1)
    k = len(means)
    statistic = [((means[d:] - means[d:].mean()) ** 2).sum() / (k - d) ** 2 for d in range(k // 2 + 1)]
    assert mser5(values.astype(np.int64))["truncated_queries"] == 5 * int(np.argmin(statistic))


def test_a_run_that_only_grows_never_settles():
    assert mser5((np.arange(1000) * 1000).astype(np.int64))["truncated_share"] == 0.5


def test_first_window_ratio():
    values = np.full(100, 1000, dtype=np.int64)
    values[:10] = 2500
    assert first_window(values) == {"queries": 10, "ratio": 2.5}


def test_too_few_say_so():
    few = np.arange(1, 50, dtype=np.int64)
    assert "needs" in mser5(few)["undefined"]
    assert "needs" in drift(few)["undefined"]
    assert "needs" in first_window(few)["undefined"]


def test_constant_latency_has_no_trend():
    assert drift(np.full(100, 5, dtype=np.int64)) == {
        "batches": 20,
        "kendall_tau": 0.0,
        "kendall_p": 1.0,
        "half_change": 0.0,
    }
