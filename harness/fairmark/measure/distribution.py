"""Distributions: LoadGen's percentiles of exact values, with intervals that allow for dependence."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import Flags, Int64s, total
from fairmark.measure.dependence import effective_size
from fairmark.measure.undefined import undefined

__all__ = ["PERCENTILES", "distribution", "interval", "lengths", "percentile", "summary"]

PERCENTILES: Final[dict[str, float]] = {
    "p50": 50 * 0.01,
    "p90": 90 * 0.01,
    "p95": 95 * 0.01,
    "p99": 99 * 0.01,
    "p99_9": 99.9 * 0.01,
}
"""Reported percentiles as fractions, multiplied out as LoadGen does (99.9 becomes 0.9990000000000001)."""

CONFIDENCE: Final = 0.95
MIN_TAIL: Final = 10.0
"""An interval needs this many effective values beyond the percentile; with fewer it does not cover."""


def percentile(ordered: Int64s, fraction: float) -> int:
    """The element ``int(n * fraction)`` of ascending values: LoadGen's rule (results.cc:36-44)."""
    return int(ordered[int(len(ordered) * fraction)])


def interval(ordered: Int64s, fraction: float, n_eff: float) -> dict[str, Any]:
    """Distribution-free interval for a percentile of ``ordered`` (ascending, ns), on ``n_eff`` values.

    Ranks come from the binomial distribution (Hahn and Meeker, Statistical Intervals, section 5.2) of
    ``n_eff`` trials and are stretched to the values there are. Undefined when ``n_eff * (1 - fraction)``
    is below 10: simulated at 80 % load, the textbook interval on n covers 15 % instead of 95 %.
    """
    from scipy.stats import binom

    tail = n_eff * min(fraction, 1 - fraction)
    if tail < MIN_TAIL:
        return undefined(
            f"n_eff·(1−p) = {tail:.3g} is below {MIN_TAIL:g}: the run is too short for an interval"
        )
    n, trials = len(ordered), int(n_eff)
    alpha = (1 - CONFIDENCE) / 2
    low = math.floor((binom.ppf(alpha, trials, fraction) - 1) * n / trials)
    high = math.ceil(binom.ppf(1 - alpha, trials, fraction) * n / trials)
    return {
        "low_ns": int(ordered[max(low, 0)]),
        "high_ns": int(ordered[min(high, n - 1)]),
        "confidence": CONFIDENCE,
        "n_eff": float(n_eff),
        "method": "order statistics on the effective sample size",
    }


def distribution(values: Int64s, *, no_interval: str | None = None) -> dict[str, Any]:
    """Describe at least one duration, in ns and in issue order, without `phase.ABSENT`.

    Args:
        no_interval: why there can be no interval, for values that are not one per query.
    """
    ordered = np.sort(values)
    points = {name: percentile(ordered, fraction) for name, fraction in PERCENTILES.items()}

    def interval_of(name: str) -> dict[str, Any]:
        if no_interval is not None:
            return undefined(no_interval)
        fraction = PERCENTILES[name]
        if len(values) * (1 - fraction) < MIN_TAIL:
            return interval(ordered, fraction, float(len(values)))
        beyond: Flags = values >= points[name]
        return interval(ordered, fraction, effective_size(beyond))

    return {
        "n": len(values),
        "min_ns": int(ordered[0]),
        "mean_ns": total(values) // len(values),
        **{f"{name}_ns": point for name, point in points.items()},
        "max_ns": int(ordered[-1]),
        "intervals": {name: interval_of(name) for name in PERCENTILES},
    }


def summary(values: Int64s) -> dict[str, Any]:
    """n, p50, p99 and maximum of at least one duration in ns, for the client's own figures."""
    ordered = np.sort(values)
    return {
        "n": len(values),
        "p50_ns": percentile(ordered, PERCENTILES["p50"]),
        "p99_ns": percentile(ordered, PERCENTILES["p99"]),
        "max_ns": int(ordered[-1]),
    }


def lengths(values: Int64s) -> dict[str, Any]:
    """Describe at least one token count."""
    ordered = np.sort(values)
    points = {name: percentile(ordered, PERCENTILES[name]) for name in ("p50", "p90", "p99")}
    return {
        "n": len(values),
        "min": int(ordered[0]),
        "mean": total(values) / len(values),
        **points,
        "max": int(ordered[-1]),
    }
