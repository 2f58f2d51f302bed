"""Rates and latencies by input and by output length, and the lengths themselves against a recording's.

One mean over requests of 20 and of 10 000 tokens describes neither.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import Flags, Int64s, present, total
from fairmark.measure.distribution import PERCENTILES, percentile
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio, undefined
from fairmark.samples.recordings import recorded_lengths

__all__ = ["by_length", "ks_distance"]

_POINTS: Final = {"p50": 1, "p99": 100}
"""Percentiles of a bucket, and the values that it needs for them: with fewer, p99 is the maximum."""
_KS_5_PERCENT: Final = 1.358
"""sqrt(-ln(0.05 / 2) / 2): the two-sample limit at 5 % for large samples (Smirnov 1948)."""


def by_length(phase: Phase, terms: Terms, like: str | None) -> dict[str, Any]:
    """Buckets of input and of output lengths, and the distance to the lengths of the recording ``like``."""
    if not terms.generates_tokens:
        return dict.fromkeys(("input", "output", "like"), undefined(NO_TOKENS))
    return {
        "input": _buckets(phase, phase.input_tokens),
        "output": _buckets(phase, phase.output_tokens),
        "like": _against(phase, like),
    }


def _buckets(phase: Phase, length: Int64s) -> list[dict[str, Any]] | dict[str, Any]:
    """One for each power of two that some success has: [2^k, 2^(k+1)) tokens, the first one from 0."""
    counted = phase.ok & present(length)
    if not counted.any():
        return undefined("no success has a token count")
    if not counted[phase.ok].all():
        return undefined("not every success has its token count")
    powers = np.where(counted, np.floor(np.log2(np.maximum(length, 1))), -1).astype(np.int64)
    seconds = (int(phase.done.max()) - phase.start_ns) / 1e9
    return [_bucket(phase, powers == power, int(power), seconds) for power in np.unique(powers[counted])]


def _bucket(phase: Phase, inside: Flags, power: int, seconds: float) -> dict[str, Any]:
    n = int(inside.sum())
    inputs, outputs = _sum(phase.input_tokens[inside]), _sum(phase.output_tokens[inside])
    both = None if inputs is None or outputs is None else inputs + outputs
    values: dict[str, Any] = {
        "from_tokens": 0 if power == 0 else 1 << power,
        "below_tokens": 1 << (power + 1),
        "n": n,
        "qps": ratio(n, seconds),
        "output_tokens_per_s": None if outputs is None else ratio(outputs, seconds),
        "total_tokens_per_s": None if both is None else ratio(both, seconds),
        "mean_input_tokens": None if inputs is None else inputs / n,
        "mean_output_tokens": None if outputs is None else outputs / n,
    }
    why = dict.fromkeys(values, "not every success has both token counts, or the window has no length")
    latencies = {
        "ttft": elapsed(phase.scheduled, phase.first_token)[inside],
        "tpot": phase.tpot()[inside],
        "e2e": elapsed(phase.scheduled, phase.completed)[inside],
    }
    for name, latency in latencies.items():
        ordered = np.sort(latency[present(latency)])
        for point, needed in _POINTS.items():
            enough = len(ordered) >= needed
            values[f"{name}_{point}_ns"] = percentile(ordered, PERCENTILES[point]) if enough else None
            why[f"{name}_{point}_ns"] = f"needs {needed} successes with this latency, has {len(ordered)}"
    return group(values, why)


def _sum(tokens: Int64s) -> int | None:
    return total(tokens) if present(tokens).all() else None


def _against(phase: Phase, like: str | None) -> dict[str, Any]:
    if like is None:
        return undefined("the scenario names no recording to compare lengths with")
    recorded = recorded_lengths(like)
    if recorded is None:
        return undefined(f"there is no recording {like!r} with lengths")
    found = {}
    for name, length, other in (
        ("input", phase.input_tokens, recorded.input_tokens),
        ("output", phase.output_tokens, recorded.output_tokens),
    ):
        own = length[phase.ok & present(length)]
        found[f"{name}_ks"] = ks_distance(own, np.array(other)) if len(own) else None
    n, m = int(phase.ok.sum()), len(recorded.input_tokens)
    limit = _KS_5_PERCENT * math.sqrt((n + m) / (n * m)) if n else None
    none = "no success has a token count"
    return group(
        {"recording": like, "n": n, "recorded": m, **found, "ks_5_percent": limit},
        {"input_ks": none, "output_ks": none, "ks_5_percent": "no sample succeeded"},
    )


def ks_distance(one: Int64s, other: Int64s) -> float:
    """The largest difference between two empirical distribution functions (Kolmogorov-Smirnov)."""
    points = np.concatenate([one, other])
    below = [np.searchsorted(np.sort(x), points, side="right") / len(x) for x in (one, other)]
    return float(np.abs(below[0] - below[1]).max())
