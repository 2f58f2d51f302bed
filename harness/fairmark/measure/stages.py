"""The two stages of generation as straight lines: prefill and decode.

Fits describe this run only; with little spread in lengths or load their intervals are wide, and say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Int64s, present, total
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["in_flight_at", "inverse", "two_stages"]

Matrix: TypeAlias = list[list[Fraction]]

_MIN_POINTS: Final = 20
_Z95: Final = 1.959963984540054


def in_flight_at(start: Int64s, end: Int64s, at: Int64s) -> Int64s:
    """How many of the spans [start, end) hold each time in ``at``."""
    begun = np.searchsorted(np.sort(start), at, side="right")
    ended = np.searchsorted(np.sort(end), at, side="right")
    return (begun - ended).astype(np.int64)


def two_stages(phase: Phase, terms: Terms) -> dict[str, Any]:
    """TTFT from send against input tokens and other prefills in flight; TPOT against concurrent decodes."""
    if not terms.generates_tokens:
        return {"prefill": undefined(NO_TOKENS), "decode": undefined(NO_TOKENS)}
    return {"prefill": _prefill(phase), "decode": _decode(phase)}


def _prefill(phase: Phase) -> dict[str, Any]:
    ttft = elapsed(phase.sent, phase.first_token)
    used = phase.ok & present(ttft) & present(phase.input_tokens)
    sent, first = phase.sent[used], phase.first_token[used]
    others = np.maximum(in_flight_at(sent, first, sent) - 1, 0)
    fit = _fit(ttft[used], {"ns_per_input_token": phase.input_tokens[used], "ns_per_prefill": others})
    if "undefined" in fit:
        return fit
    slope = fit["coefficients"].get("ns_per_input_token")
    rate = 1e9 / slope["value"] if slope is not None and slope["low"] > 0 else None
    unknown = "TTFT does not grow measurably with input tokens"
    return {**fit, "derived": group({"prefill_tokens_per_s": rate}, {"prefill_tokens_per_s": unknown})}


def _decode(phase: Phase) -> dict[str, Any]:
    tpot = phase.tpot()
    used = present(tpot)
    first, done = phase.first_token[used], phase.completed[used]
    middle = first + (done - first) // 2
    others = np.maximum(in_flight_at(first, done, middle) - 1, 0)
    fit = _fit(tpot[used], {"ns_per_decode": others})
    return fit if "undefined" in fit else {**fit, "derived": group({}, {})}


def _fit(y: Int64s, by: dict[str, Int64s]) -> dict[str, Any]:
    """Least squares of ``y`` on a constant (``ns_fixed``) and the columns that vary; 95 % intervals.

    Intervals use the heteroscedasticity-consistent covariance HC1 (MacKinnon and White, 1985). The normal
    equations are solved in fractions: they are ill-conditioned, and an audit must find the same digits.
    """
    varying = {name: column for name, column in by.items() if len(column) and np.ptp(column) > 0}
    if len(y) < _MIN_POINTS:
        return undefined(f"needs {_MIN_POINTS} samples with these stamps, has {len(y)}")
    if not varying:
        return undefined("nothing varies: " + ", ".join(by))
    if np.ptp(y) == 0:
        return undefined("the latency does not vary")
    x = [np.ones(len(y), dtype=np.int64), *varying.values()]
    bread = inverse([[total(a * b) for b in x] for a in x])
    if bread is None:
        return undefined("its inputs vary only together: " + ", ".join(by))
    weights = _times(bread, [total(a * y) for a in x])
    residual = y.astype(np.float64)
    for weight, column in zip(weights, x, strict=True):
        residual -= float(weight) * column
    coefficients = {
        name: {"value": float(w), "low": float(w) - _Z95 * e, "high": float(w) + _Z95 * e}
        for name, w, e in zip(("ns_fixed", *varying), weights, _errors(x, residual, bread), strict=True)
    }
    spread = math.fsum((y - total(y) / len(y)) ** 2)
    return {"n": len(y), "r2": 1 - math.fsum(residual**2) / spread, "coefficients": coefficients}


def _errors(x: Sequence[Int64s], residual: npt.NDArray[np.float64], bread: Matrix) -> list[float]:
    """Standard errors: the roots of the diagonal of bread * meat * bread, meat = X' diag(r^2) X."""
    squared = residual**2
    meat = [[Fraction(math.fsum(a * b * squared)) for b in x] for a in x]
    n, k = len(residual), len(x)
    return [
        math.sqrt(max(0.0, n / (n - k) * sum(b * m for b, m in zip(row, _times(meat, row), strict=True))))
        for row in bread
    ]


def _times(matrix: Matrix, vector: Sequence[Fraction | int]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction()) for row in matrix]


def inverse(matrix: Sequence[Sequence[int]]) -> Matrix | None:
    """The exact inverse of a small square matrix by Gauss-Jordan elimination; None if it has none."""
    size = len(matrix)
    rows = [
        [Fraction(v) for v in row] + [Fraction(i == j) for j in range(size)] for i, row in enumerate(matrix)
    ]
    for i in range(size):
        pivot = next((r for r in range(i, size) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for r in range(size):
            if r != i:
                rows[r] = [value - rows[r][i] * own for value, own in zip(rows[r], rows[i], strict=True)]
    return [row[size:] for row in rows]
