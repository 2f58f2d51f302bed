"""Gaps between arrivals, in whole nanoseconds, from mt19937 words.

Poisson gaps equal LoadGen's to the nanosecond (loadgen.cc, ``ScheduleDistribution<Server>``): one
``std::exponential_distribution`` draw a query, two words each, truncated toward zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from fairmark.traffic.draws import draw_unit
from fairmark.traffic.mt19937 import Int64Array, Mt19937

__all__ = ["Gaps", "constant_gaps", "gamma_gaps", "poisson_gaps", "recorded_gaps"]

Float64Array = NDArray[np.float64]

Gaps = Callable[[int], Int64Array]
"""The next ``n`` gaps of an arrival process, in ns. A process that ends may return fewer."""

_NS_PER_S = 1e9

_GUARD = 2.0**-47
"""Relative distance to a whole number below which truncation might depend on the logarithm's last bits.

2**-47 is 64 units in the last place of a double: far beyond what two logarithms and the two roundings
after them can differ by, and rare enough (one draw in 10^5 at 1 query/s) to cost nothing.
"""

_TRUSTED_ULPS = 8
"""A vectorised logarithm that strays further from the C library's than this is not used at all."""


def poisson_gaps(words: Mt19937, rate_qps: float) -> Gaps:
    """Exponential gaps with mean 1 / rate."""

    def gaps(count: int) -> Int64Array:
        complements = 1.0 - draw_unit(words, count)
        if not _vector_log_is_close():
            return _exact_gaps(complements, rate_qps)
        ns = -_log(complements) / rate_qps * _NS_PER_S
        truncated = ns.astype(np.int64)
        unsure = np.flatnonzero(np.abs(ns - np.rint(ns)) <= ns * _GUARD)
        truncated[unsure] = _exact_gaps(complements[unsure], rate_qps)
        return truncated

    return gaps


def constant_gaps(rate_qps: float) -> Gaps:
    """Equal gaps of 1 / rate, truncated as LoadGen does for its closed loops."""
    gap_ns = int((1.0 / rate_qps) * _NS_PER_S)

    def gaps(count: int) -> Int64Array:
        return np.full(count, gap_ns, dtype=np.int64)

    return gaps


def gamma_gaps(words: Mt19937, rate_qps: float, cv: float) -> Gaps:
    """Gamma gaps with mean 1 / rate and the given coefficient of variation.

    Shape 1/cv^2, by Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26,
    2000), with their boost U^(1/shape) for shapes below 1. Every attempt takes eight words: two uniforms
    for a normal by Box and Muller (the cosine one), one to accept, one for the boost; the gaps are the
    accepted attempts in order.
    """
    shape = 1.0 / (cv * cv)
    scale_ns = _NS_PER_S / (rate_qps * shape)
    boosted = shape if shape >= 1.0 else shape + 1.0
    d = boosted - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)

    def accepted_attempts(count: int) -> Float64Array:
        u = 1.0 - draw_unit(words, 4 * count).reshape(count, 4)
        normal = np.sqrt(-2.0 * np.log(u[:, 0])) * np.cos(2.0 * np.pi * u[:, 1])
        v = (1.0 + c * normal) ** 3
        with np.errstate(divide="ignore", invalid="ignore"):
            accept = (v > 0.0) & (np.log(u[:, 2]) < 0.5 * normal**2 + d - d * v + d * np.log(v))
        boost = 1.0 if shape >= 1.0 else u[:, 3] ** (1.0 / shape)
        values: Float64Array = d * v * boost
        return values[accept]

    def gaps(count: int) -> Int64Array:
        parts: list[Float64Array] = []
        missing = count
        while missing > 0:
            parts.append(accepted_attempts(missing))
            missing -= len(parts[-1])
        return (np.concatenate(parts) * scale_ns).astype(np.int64) if parts else np.empty(0, np.int64)

    return gaps


def recorded_gaps(arrivals_ns: Int64Array, *, repeat: bool) -> Gaps:
    """The gaps of a recorded list of arrivals; with ``repeat``, over and over, else once.

    The gap after the last arrival is the mean gap, so that repeating does not change the rate.
    """
    between = np.diff(arrivals_ns)
    recorded = np.append(between, between.mean() if len(between) else 0).astype(np.int64)
    position = 0

    def gaps(count: int) -> Int64Array:
        nonlocal position
        chosen = np.arange(position, position + count)
        position += count
        return recorded[chosen % len(recorded) if repeat else chosen[chosen < len(recorded)]]

    return gaps


def _log(values: Float64Array) -> Float64Array:
    logs: Float64Array = np.log(values)
    return logs


def _exact_gaps(complements: Float64Array, rate_qps: float) -> Int64Array:
    """The gaps by the C library's logarithm, which is the one LoadGen calls."""
    log = math.log
    return np.array([int(-log(c) / rate_qps * _NS_PER_S) for c in complements.tolist()], dtype=np.int64)


@cache
def _vector_log_is_close() -> bool:
    """Whether this CPU's vectorised logarithm stays within the guard, on 4,096 fixed probes."""
    probes = (np.arange(4096) + 0.5) / 4096
    exact = np.array([math.log(p) for p in probes.tolist()])
    return bool(np.all(np.abs(_log(probes) - exact) <= _TRUSTED_ULPS * np.spacing(np.abs(exact))))
