"""What the numbers must find: coordinated omission, overload, drift, and dependence near saturation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fairmark import Done, Event, SimSUT, Simulation
from fairmark.measure.arrow import Flags
from fairmark.measure.dependence import variance_inflation
from fairmark.measure.stopping import queries_needed
from fairmark_sim import SimQueueSUT

MS = 1_000_000
S = 1_000_000_000


class ByArrival(SimSUT):
    """Answers each query after a time that depends on when it came."""

    def __init__(self, latency_ns: Callable[[int], int]) -> None:
        super().__init__(SimSUT.Options())
        self.latency_ns = latency_ns

    def simulation(self, seed: int) -> Simulation:
        return _ByArrival(self.latency_ns)


class _ByArrival(Simulation):
    def __init__(self, latency_ns: Callable[[int], int]) -> None:
        self.latency_ns = latency_ns
        self.due: list[tuple[int, int]] = []

    def issue(self, now_ns: int, seq: int, sample: Any) -> None:
        self.due.append((now_ns + self.latency_ns(now_ns), seq))
        self.due.sort()

    def next_ns(self) -> int | None:
        return self.due[0][0] if self.due else None

    def advance(self) -> list[tuple[int, Event]]:
        return [(self.due.pop(0)[1], Done())]


def frozen_one_second_in_ten(now_ns: int) -> int:
    """1 ms; during the first second of every ten, only once that second is over."""
    return max(0, S - now_ns % (10 * S)) + MS


def queue(**options: Any) -> SimQueueSUT:
    return SimQueueSUT(SimQueueSUT.Options(**options))


def outcomes(record: dict[str, Any]) -> dict[str, str]:
    return {rule["id"]: rule["outcome"] for rule in record["verdict"]["rules"]}


def test_a_stall_shows_from_the_schedule_and_hides_in_a_closed_loop(bench) -> None:
    """A tenth of the arrivals waits uniformly up to 1 s, so 1 in 100 waits longer than 0.9 s.

    The closed loop asks once, waits, and asks ten thousand times in the nine seconds after it: its p99 is
    the 1 ms of the good times. That is coordinated omission.
    """
    sut = ByArrival(frozen_one_second_in_ten)
    common = ("warmup.queries=0", "run.min_duration_s=200")
    open_loop = bench.run("Server", sut, *common, "settings.target_qps=100").judged()
    e2e = open_loop["metrics"]["performance"]["latency"]["e2e_ns"]
    assert e2e["from_schedule"]["p99_ns"] == pytest.approx(0.9 * S, rel=0.03)
    closed = bench.run("SingleStream", sut, "warmup.queries=0", "run.min_query_count=20000").judged()
    assert closed["metrics"]["performance"]["latency"]["e2e_ns"]["from_schedule"]["p99_ns"] == MS


@pytest.mark.parametrize(("rho", "rule"), [(1.1, "backlog"), (1.5, "overload")])
def test_overload_is_found_and_its_size_too(bench, rho: float, rule: str) -> None:
    """Of an overload the share 1 - 1/rho stays undone; a tenth is a warning, a third an error."""
    ran = bench.run(
        "Server",
        queue(service_ms=10.0, servers=1),
        "run.min_query_count=4000",
        "run.query_timeout_s=500",
        "run.drain_timeout_s=500",
        f"settings.target_qps={100 * rho}",
    )
    record = ran.judged()
    backlog = record["metrics"]["performance"]["steady"]["backlog"]
    assert backlog["unserved_share"] == pytest.approx(1 - 1 / rho, rel=0.25)
    assert outcomes(record)[rule] == "fail"


def test_drift_is_found(bench) -> None:
    """Latency grows by 30 % over the 40 s: the halves' medians are at a quarter and three quarters."""
    ran = bench.run(
        "Server",
        ByArrival(lambda now_ns: 5 * MS + 5 * MS * 3 * now_ns // (400 * S)),
        "run.min_query_count=4000",
        "settings.target_qps=100",
    )
    record = ran.judged()
    drift = record["metrics"]["performance"]["steady"]["drift"]
    assert drift["half_change"] == pytest.approx((1 + 0.3 * 0.75) / (1 + 0.3 * 0.25) - 1, abs=0.02)
    assert drift["kendall_tau"] == 1.0
    assert outcomes(record)["drift"] == "fail"


def test_a_steady_queue_is_neither(bench) -> None:
    ran = bench.run(
        "Server",
        queue(service="exponential", service_ms=5.0, servers=1),
        "run.min_query_count=4000",
        "settings.target_qps=100",
    )
    found = outcomes(ran.judged())
    assert (found["overload"], found["backlog"], found["drift"]) == ("pass", "pass", "pass")


@pytest.mark.slow
def test_early_stopping_passes_failing_systems_the_more_the_busier_they_are(bench) -> None:
    """M/M/1 with exactly 1.5 % of the sojourns over the bound, 2,000 queries, percentile 99.

    Were queries independent, early stopping would pass 1 such run in 10^5. They are not, and the closer to
    saturation the more often it does. Counts divided by the variance inflation of one run help little:
    a run without a busy period shows no dependence either. Fresh seeds that must all pass help more.
    """
    passed, adjusted, three_in_a_row = {}, {}, {}
    for rho in (0.5, 0.7, 0.9):
        service_ms = 10.0 * rho
        bound_s = -math.log(0.015) * service_ms / 1e3 / (1 - rho)
        runs = [
            bench.run(
                "Server",
                queue(service="exponential", service_ms=service_ms, servers=1),
                "run.min_query_count=2000",
                "settings.target_qps=100",
                repetition=repetition,
            )
            for repetition in range(30)
        ]
        verdicts = [early_stopping(ran.sojourn_s > bound_s) for ran in runs]
        passed[rho] = np.mean([plain for plain, _ in verdicts])
        adjusted[rho] = np.mean([careful for _, careful in verdicts])
        plain = np.array([plain for plain, _ in verdicts])
        three_in_a_row[rho] = plain.reshape(-1, 3).all(axis=1).mean()
    assert passed[0.5] <= 0.1 < 0.2 <= passed[0.7] < passed[0.9]
    assert all(adjusted[rho] < passed[rho] for rho in passed)
    assert three_in_a_row[0.7] < adjusted[0.7]
    assert three_in_a_row[0.9] < adjusted[0.9]


def early_stopping(over: Flags) -> tuple[bool, bool]:
    """LoadGen's verdict at percentile 99, and the same on counts divided by the variance inflation."""
    n, t = len(over), int(over.sum())
    vif = variance_inflation(over, 20)
    return queries_needed(t, 0.99) <= n, queries_needed(math.ceil(t / vif), 0.99) <= n / vif
