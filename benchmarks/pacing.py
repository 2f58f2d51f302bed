"""Poisson arrivals as the server sees them: how late they are, and whether they still are Poisson."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.stats import kstest

from benchmarks.driver import open_loop
from benchmarks.mock import Mock, build, cores_missing, mock_server
from benchmarks.result import Goal, Result, against_limit, not_run
from fairmark.traffic.arrivals import poisson_gaps
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.schedule import due_times

__all__ = ["run"]

ARRIVALS: Final = 2000
"""At least so many, for the KS distance of a Poisson sample itself to be small."""

SHORTEST_S: Final = 2.0
RATES: Final = (50, 200, 1000, 3000)
QUICK_RATES: Final = (200, 1000, 3000)
CPU_RATE: Final = 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """One run, from the server's side.

    Attributes:
        lag_p50_us, lag_p99_us: of arrival against due time.
        ks_excess: the KS distance of the gaps to the exponential, less that of the schedule's own gaps.
        cores: CPU time of the driver per second.
    """

    lag_p50_us: float
    lag_p99_us: float
    ks_excess: float
    cores: float


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    goal: Goal
    unit: str
    figure: Callable[[Seen], float]


_ROWS: Final = (
    _Row("lag at the server, p50", Goal("≤", 20.0), "µs", lambda seen: seen.lag_p50_us),
    _Row("lag at the server, p99", Goal("≤", 100.0), "µs", lambda seen: seen.lag_p99_us),
    _Row("KS to the exponential beyond the plan's", Goal("≤", 0.03), "of 1", lambda seen: seen.ks_excess),
)
_CPU_ROW: Final = _Row("CPU of the driver", Goal("≤", 0.15), "cores", lambda seen: seen.cores)


def run(quick: bool) -> list[Result]:
    """The rows."""
    rates, rounds = (QUICK_RATES, 3) if quick else (RATES, 5)
    program = build()
    reason = cores_missing() or (program if isinstance(program, str) else None)
    seen: dict[int, list[Seen]] = {rate: [] for rate in rates}
    if reason is None:
        assert isinstance(program, Path)
        with mock_server(program, "json", busy=True) as mock:
            for seed in range(rounds):
                for rate in rates:
                    seen[rate].append(one_run(mock, rate, seed))
    return [_result(row, rate, seen[rate], reason) for rate in rates for row in _rows(rate)]


def _rows(rate: int) -> tuple[_Row, ...]:
    return (*_ROWS, _CPU_ROW) if rate == CPU_RATE else _ROWS


def _result(row: _Row, rate: int, seen: Sequence[Seen], reason: str | None) -> Result:
    name = f"pacing {rate}/s: {row.name}"
    if reason is not None:
        return not_run(name, goal=row.goal, unit=row.unit, note=reason)
    return against_limit(name, [row.figure(one) for one in seen], goal=row.goal, unit=row.unit)


def schedule(rate_qps: float, seed: int) -> npt.NDArray[np.int64]:
    """Due times in ns of a Poisson plan, by the code that plans a run."""
    count = max(ARRIVALS, round(rate_qps * SHORTEST_S))
    gaps = poisson_gaps(Mt19937(seed), rate_qps)
    return due_times(gaps, until_ns=0, min_count=count, at_least=count, step=1, expected_count=count)[0]


def one_run(mock: Mock, rate_qps: float, seed: int) -> Seen:
    """Send a plan and look at the server's stamps.

    Raises:
        RuntimeError: not as many requests arrived as were planned.
    """
    due_ns = schedule(rate_qps, seed)
    mock.forget()
    load, planned_ns = open_loop(mock.port, due_ns)
    # The stamps of the warm-up come first: it had ended before.
    arrived_ns = mock.arrivals_ns()[-len(due_ns) :]
    if len(arrived_ns) != len(due_ns) or arrived_ns[0] < planned_ns[0]:
        raise RuntimeError(f"{len(due_ns)} requests were planned and other ones arrived")
    lag_us = (arrived_ns - planned_ns) / 1e3
    p50, p99 = np.percentile(lag_us, [50, 99])
    excess = _ks(arrived_ns) - _ks(planned_ns)
    return Seen(float(p50), float(p99), excess, load.cores)


def _ks(times_ns: npt.NDArray[np.int64]) -> float:
    """The distance of the gaps' distribution to the exponential of the same mean."""
    gaps = np.diff(times_ns)
    return float(kstest(gaps, "expon", args=(0, gaps.mean())).statistic)
