"""Was the measured window steady: no warm-up inside it, no drift, no growing backlog.

Tests for a unit root (augmented Dickey-Fuller) are not used: they call runs with a 30 % drift stationary.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import ABSENT, Int64s, present
from fairmark.measure.distribution import PERCENTILES, percentile
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import undefined

__all__ = ["backlog", "drift", "first_window", "mser5", "steady"]

_BATCH: Final = 5
_MIN_BATCHES: Final = 20
_DRIFT_BATCHES: Final = 20
_DRIFT_MIN_BATCH_SIZE: Final = 3


def mser5(latencies: Int64s) -> dict[str, Any]:
    """Initial transient by MSER-5 on latencies in issue order.

    The truncation d minimises sum((x_i - mean)^2, i > d) / (k - d)^2 over the k means of batches of 5 (White,
    Cobb and Spratt, A comparison of five steady-state truncation heuristics, WSC 2000). It is searched in the
    first half: a cut at its end means that no end of the transient was found. Nothing is deleted: the cut is
    reported, and p99 of the rest beside it.
    """
    k = len(latencies) // _BATCH
    if k < _MIN_BATCHES:
        return undefined(f"needs {_BATCH * _MIN_BATCHES} successes, has {len(latencies)}")
    means = latencies[: k * _BATCH].reshape(k, _BATCH).mean(axis=1)
    centred = means - means.mean()
    rest = np.arange(k, 0, -1)
    sums, squares = np.cumsum(centred[::-1])[::-1], np.cumsum(centred[::-1] ** 2)[::-1]
    statistic = (squares - sums**2 / rest) / rest**2.0
    cut = int(np.argmin(statistic[: k // 2 + 1]))
    kept = np.sort(latencies[cut * _BATCH :])
    return {
        "batch": _BATCH,
        "batches": k,
        "truncated_share": cut / k,
        "truncated_queries": cut * _BATCH,
        "p99_after_ns": percentile(kept, PERCENTILES["p99"]),
    }


def drift(latencies: Int64s) -> dict[str, Any]:
    """Trend of the medians of 20 consecutive batches: Kendall's tau against time, and half against half."""
    from scipy.stats import kendalltau

    size = len(latencies) // _DRIFT_BATCHES
    if size < _DRIFT_MIN_BATCH_SIZE:
        return undefined(f"needs {_DRIFT_BATCHES * _DRIFT_MIN_BATCH_SIZE} successes, has {len(latencies)}")
    medians = np.median(latencies[: size * _DRIFT_BATCHES].reshape(_DRIFT_BATCHES, size), axis=1)
    half = len(latencies) // 2
    before, after = float(np.median(latencies[:half])), float(np.median(latencies[half:]))
    if before <= 0:
        return undefined("the median latency of the first half is not above 0")
    if np.ptp(medians) == 0:
        tau, p = 0.0, 1.0
    else:
        found = kendalltau(np.arange(_DRIFT_BATCHES), medians)
        tau, p = float(found.statistic), float(found.pvalue)
    return {"batches": _DRIFT_BATCHES, "kendall_tau": tau, "kendall_p": p, "half_change": after / before - 1}


def backlog(issued: Int64s, done: Int64s) -> dict[str, Any]:
    """Growth of the number in flight, as each query finds it, over the last 80 % of the issue window.

    ``issued`` and ``done`` are stamps of the same samples in ns. ``unserved_share`` is the slope as a share
    of the arrival rate: what an overloaded system does not get done, 1 - 1/rho. ``growth_scale`` is the
    median in flight, or 1 if that is more: a straight ramp grows by 4/3 of its own median in the window, so
    no multiple of the median above that could ever be exceeded.
    """
    order = np.argsort(issued, kind="stable")
    times = issued[order]
    found = np.arange(len(times)) - np.searchsorted(np.sort(done), times, side="right")
    late = times >= times[0] + (times[-1] - times[0]) // 5
    times, found = times[late], found[late]
    span = int(times[-1] - times[0])
    if len(times) < _BATCH * 2 or span <= 0:
        return undefined("too few queries to fit a slope")
    rate = (len(times) - 1) / (span / 1e9)
    slope = _slope((times - times[0]) / 1e9, found.astype(np.float64))
    median = float(np.median(found))
    return {
        "slope_qps": slope,
        "unserved_share": slope / rate,
        "growth": slope * span / 1e9,
        "median_in_flight": median,
        "growth_scale": max(median, 1.0),
    }


def _slope(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Least squares; sums are rounded once, so that a slope near 0 is the same on every machine."""
    n = len(x)
    x, y = x - math.fsum(x) / n, y - math.fsum(y) / n
    return math.fsum(x * y) / math.fsum(x * x)


def first_window(latencies: Int64s) -> dict[str, Any]:
    """Median of the first tenth of the queries against the rest: compilation inside the run shows here."""
    first = len(latencies) // 10
    if first < _BATCH:
        return undefined(f"needs {10 * _BATCH} successes, has {len(latencies)}")
    rest = float(np.median(latencies[first:]))
    if rest <= 0:
        return undefined("the median latency is not above 0")
    return {"queries": first, "ratio": float(np.median(latencies[:first])) / rest}


def steady(phase: Phase, terms: Terms) -> dict[str, Any]:
    """All steadiness figures of a phase, on end-to-end latencies of successes in issue order."""
    tests = ("mser", "drift", "backlog", "first_window")
    if not phase.ok.any():
        return dict.fromkeys(tests, undefined("no sample succeeded"))
    if terms.kind == "Offline":
        return dict.fromkeys(tests, undefined("not applicable: Offline issues everything at once"))
    order = np.lexsort((phase.seq, phase.issued))
    e2e = np.where(phase.ok, elapsed(phase.scheduled, phase.completed), ABSENT)[order]
    e2e = e2e[present(e2e)]
    growing = (
        backlog(phase.issued, phase.done)
        if terms.open_loop
        else undefined("not applicable: a closed loop cannot build a backlog")
    )
    return {
        "mser": mser5(e2e),
        "drift": drift(e2e),
        "backlog": growing,
        "first_window": first_window(e2e),
    }
