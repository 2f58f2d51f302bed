"""The two stages of generation as straight lines: prefill and decode.

Fits describe this run only; with little spread in lengths or load their intervals are wide, and say so.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Int64s, present
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["in_flight_at", "two_stages"]

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

    Intervals use the heteroscedasticity-consistent covariance HC1 (MacKinnon and White, 1985).
    """
    varying = {name: column for name, column in by.items() if len(column) and np.ptp(column) > 0}
    if len(y) < _MIN_POINTS:
        return undefined(f"needs {_MIN_POINTS} samples with these stamps, has {len(y)}")
    if not varying:
        return undefined("nothing varies: " + ", ".join(by))
    if np.ptp(y) == 0:
        return undefined("the latency does not vary")
    x = np.column_stack([np.ones(len(y)), *varying.values()]).astype(np.float64)
    if np.linalg.matrix_rank(x) < x.shape[1]:
        return undefined("its inputs vary only together: " + ", ".join(by))
    target = y.astype(np.float64)
    weights, *_ = np.linalg.lstsq(x, target, rcond=None)
    residual = target - x @ weights
    errors = np.sqrt(np.maximum(np.diag(_covariance(x, residual)), 0.0))
    coefficients = {
        name: {"value": float(w), "low": float(w - _Z95 * e), "high": float(w + _Z95 * e)}
        for name, w, e in zip(("ns_fixed", *varying), weights, errors, strict=True)
    }
    spread = float(((target - target.mean()) ** 2).sum())
    return {"n": len(y), "r2": 1 - float(residual @ residual) / spread, "coefficients": coefficients}


def _covariance(x: npt.NDArray[np.float64], residual: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    n, k = x.shape
    bread = np.linalg.inv(x.T @ x)
    meat = (x * residual[:, None] ** 2).T @ x
    covariance: npt.NDArray[np.float64] = bread @ meat @ bread * (n / max(n - k, 1))
    return covariance
