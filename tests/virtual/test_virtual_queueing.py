"""Queueing theory is the oracle: mean times in steady state by formula, against measured ones.

The interval of a measured mean is by batch means: the run's queries in 20 consecutive batches, whose means
are nearly independent, and Student's t with 19 degrees of freedom (Law, Simulation Modeling and Analysis,
chapter 9). Batches are hundreds of relaxation times long at these utilisations.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from fairmark_sim import SimQueueSUT

BATCHES = 20
RATE_QPS = 100.0


def queue(**options: object) -> SimQueueSUT:
    return SimQueueSUT(SimQueueSUT.Options(**options))


def batch_means_interval(values: np.ndarray, confidence: float) -> tuple[float, float]:
    size = len(values) // BATCHES
    means = values[: size * BATCHES].reshape(BATCHES, size).mean(axis=1)
    half = t.ppf((1 + confidence) / 2, BATCHES - 1) * means.std(ddof=1) / math.sqrt(BATCHES)
    return means.mean() - half, means.mean() + half


def pollaczek_khinchine_wait(rate: float, service_s: float, cv: float) -> float:
    """Mean wait in M/G/1: rho / (1 - rho) * (1 + cv^2) / 2 * E[S]."""
    rho = rate * service_s
    return rho / (1 - rho) * (1 + cv * cv) / 2 * service_s


def erlang_c_wait(rate: float, service_s: float, servers: int) -> float:
    """Mean wait in M/M/c: C(c, a) * E[S] / (c - a), with a = rate * E[S] erlangs."""
    a = rate * service_s
    tail = a**servers / math.factorial(servers) * servers / (servers - a)
    delayed = tail / (sum(a**k / math.factorial(k) for k in range(servers)) + tail)
    return delayed * service_s / (servers - a)


SYSTEMS = {
    "M/M/1 at 0.5": ({"service": "exponential", "service_ms": 5.0, "servers": 1}, 1.0),
    "M/M/1 at 0.8": ({"service": "exponential", "service_ms": 8.0, "servers": 1}, 1.0),
    "M/D/1 at 0.5": ({"service": "constant", "service_ms": 5.0, "servers": 1}, 0.0),
    "M/D/1 at 0.8": ({"service": "constant", "service_ms": 8.0, "servers": 1}, 0.0),
    "M/G/1 at 0.7": ({"service": "lognormal", "service_ms": 7.0, "cv": 0.5, "servers": 1}, 0.5),
    "M/M/2 at 0.75": ({"service": "exponential", "service_ms": 15.0, "servers": 2}, 1.0),
    "M/M/8 at 0.8": ({"service": "exponential", "service_ms": 64.0, "servers": 8}, 1.0),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_mean_waiting_time_agrees_with_queueing_theory(bench, name: str) -> None:
    options, cv = SYSTEMS[name]
    service_s, servers = options["service_ms"] / 1e3, options["servers"]
    ran = bench.run(
        "Server", queue(**options), "run.min_query_count=40000", f"settings.target_qps={RATE_QPS}"
    )
    # The stream of service times is the model's own affair, so the mean wait is the sojourn less E[S].
    low, high = batch_means_interval(ran.sojourn_s - service_s, confidence=0.99)
    if servers == 1:
        expected = pollaczek_khinchine_wait(RATE_QPS, service_s, cv)
    else:
        expected = erlang_c_wait(RATE_QPS, service_s, servers)
    assert low < expected < high
    # The interval says something: it is narrower than half of what it holds.
    assert high - low < expected / 2


def test_the_two_formulas_agree_on_m_m_1() -> None:
    assert erlang_c_wait(100.0, 0.008, 1) == pytest.approx(pollaczek_khinchine_wait(100.0, 0.008, 1.0))


@pytest.mark.slow
def test_intervals_of_95_percent_hold_the_truth_about_that_often(bench) -> None:
    """30 fresh seeds at 0.5: the number that hold it is binomial; fewer than 24 has probability 0.002."""
    held = 0
    for repetition in range(30):
        ran = bench.run(
            "Server",
            queue(service="exponential", service_ms=5.0, servers=1),
            "run.min_query_count=4000",
            f"settings.target_qps={RATE_QPS}",
            repetition=repetition,
        )
        low, high = batch_means_interval(ran.sojourn_s, confidence=0.95)
        held += low < 0.010 < high
    assert held >= 24


def test_sojourn_times_of_m_m_1_are_exponential(bench) -> None:
    """P(sojourn > x) = exp(-x * (1 - rho) / E[S]): its quartiles and p99, within a tenth."""
    ran = bench.run(
        "Server",
        queue(service="exponential", service_ms=6.0, servers=1),
        "run.min_query_count=40000",
        f"settings.target_qps={RATE_QPS}",
    )
    mean_s = 0.006 / (1 - 0.6)
    for share in (0.25, 0.5, 0.75, 0.99):
        assert np.quantile(ran.sojourn_s, share) == pytest.approx(-mean_s * math.log(1 - share), rel=0.1)


def test_littles_law_holds_on_the_log_and_with_theory(bench) -> None:
    """L = lambda * W on the log exactly; L = rho / (1 - rho) in M/M/1 by theory."""
    ran = bench.run(
        "Server",
        queue(service="exponential", service_ms=6.0, servers=1),
        "run.min_query_count=40000",
        f"settings.target_qps={RATE_QPS}",
    )
    found = ran.judged()["metrics"]["performance"]["concurrency"]
    assert found["identity_residual"] < 1e-9
    product = found["arrival_qps"] * found["mean_sojourn_ns"] / 1e9
    assert found["mean_in_flight"] == pytest.approx(product, rel=1e-9)
    assert found["mean_in_flight"] == pytest.approx(0.6 / 0.4, rel=0.1)


def test_closed_loop_throughput_is_that_of_the_machine_repairman_with_one_server(bench) -> None:
    """Three users without think time before one server of 5 ms: 200 a second, whoever waits."""
    ran = bench.run(
        "Concurrency",
        queue(service_ms=5.0, servers=1),
        "settings.concurrency=3",
        "run.min_query_count=300",
    )
    completed = np.sort(ran.column("completed_ns"))
    assert (np.diff(completed) == 5_000_000).all()
