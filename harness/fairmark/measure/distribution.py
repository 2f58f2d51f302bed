"""Distributions: LoadGen's percentiles of exact values, with intervals that allow for dependence."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Flags, Int64s, total
from fairmark.measure.dependence import effective_size
from fairmark.measure.undefined import undefined

__all__ = [
    "PERCENTILES",
    "at_ranks",
    "distribution",
    "interval",
    "lengths",
    "percentile",
    "pooled",
    "summary",
]

Int32s: TypeAlias = npt.NDArray[np.int32]

PERCENTILES: Final[dict[str, float]] = {
    "p50": 50 * 0.01,
    "p90": 90 * 0.01,
    "p95": 95 * 0.01,
    "p99": 99 * 0.01,
    "p99_9": 99.9 * 0.01,
}
"""Reported percentiles as fractions, multiplied out as LoadGen does (99.9 becomes 0.9990000000000001)."""

CONFIDENCE: Final = 0.95
_POOLED: Final = "values pooled over events of one response are not independent queries"
MIN_TAIL: Final = 10.0
"""An interval needs this many effective values beyond the percentile; with fewer it does not cover."""


_FEW: Final = 1 << 20
"""Up to so many values are sorted; of more, only those around the ranks that are asked for."""
_BUCKETS: Final = 1 << 18


def at_ranks(values: Int64s, ranks: Sequence[int], weights: Int32s | None = None) -> list[int]:
    """The elements at ``ranks`` of ``values`` in ascending order, each counted ``weights`` times.

    Many values are tallied in buckets of equal width first; then only the bucket of each rank is sorted, so
    that this takes little memory beside them.
    """
    if len(values) <= _FEW:
        return _at_ranks_sorted(values, weights, ranks)
    lowest = int(values.min())
    width = (int(values.max()) - lowest) // _BUCKETS + 1
    held = np.zeros(_BUCKETS, dtype=np.int64)
    for part, own in _parts(values, weights):
        held += np.bincount((part - lowest) // width, own, minlength=_BUCKETS).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(held)])
    buckets = [int(n) - 1 for n in np.searchsorted(before, ranks, side="right")]
    inside = {n: _between(values, weights, lowest + n * width, width) for n in set(buckets)}
    return [
        _at_ranks_sorted(*inside[n], [rank - int(before[n])])[0]
        for n, rank in zip(buckets, ranks, strict=True)
    ]


def _parts(values: Int64s, weights: Int32s | None) -> Iterator[tuple[Int64s, Int32s | None]]:
    for start in range(0, len(values), _FEW):
        here = slice(start, start + _FEW)
        yield values[here], None if weights is None else weights[here]


def _between(values: Int64s, weights: Int32s | None, low: int, width: int) -> tuple[Int64s, Int32s | None]:
    """The values in [low, low + width), with their weights."""
    chosen = [(part, own, (part >= low) & (part < low + width)) for part, own in _parts(values, weights)]
    found = np.concatenate([part[marked] for part, _, marked in chosen])
    if weights is None:
        return found, None
    return found, np.concatenate([own[marked] for _, own, marked in chosen if own is not None])


def _at_ranks_sorted(values: Int64s, weights: Int32s | None, ranks: Sequence[int]) -> list[int]:
    if weights is None:
        return [int(value) for value in np.sort(values)[list(ranks)]]
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order], dtype=np.int64), ranks, side="right")
    return [int(value) for value in values[order][places]]


def pooled(values: Int64s, weights: Int32s | None = None) -> dict[str, Any]:
    """Describe at least one duration in ns, without intervals: values of one response are not independent.

    Args:
        weights: how often each counts; None is once.
    """
    n = len(values) if weights is None else int(weights.sum(dtype=np.int64))
    points = at_ranks(values, [int(n * fraction) for fraction in PERCENTILES.values()], weights)
    whole = total(values) if weights is None else total(values * weights)
    return {
        "n": n,
        "min_ns": int(values.min()),
        "mean_ns": whole // n,
        **{f"{name}_ns": point for name, point in zip(PERCENTILES, points, strict=True)},
        "max_ns": int(values.max()),
        "intervals": dict.fromkeys(PERCENTILES, undefined(_POOLED)),
    }


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


def distribution(values: Int64s) -> dict[str, Any]:
    """Describe at least one duration, in ns and in issue order, without `phase.ABSENT`."""
    ordered = np.sort(values)
    points = {name: percentile(ordered, fraction) for name, fraction in PERCENTILES.items()}

    def interval_of(name: str) -> dict[str, Any]:
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
