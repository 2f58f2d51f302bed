"""How far the numbers of repetitions lie apart: the unit of replication is the run, not the query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairmark.measure.undefined import undefined

__all__ = ["SPREAD_OF", "spread"]

_CONFIDENCE: Final = 0.95
_FEWEST: Final = 5
"""Below five runs Student's interval is wider than it is of use."""

_LATENCIES: Final = (("ttft_ns", "from_schedule"), ("tpot_ns", "between_events"), ("e2e_ns", "from_schedule"))

SPREAD_OF: Final[tuple[str, ...]] = (
    "rates.qps",
    "rates.output_tokens_per_s",
    "rates.total_tokens_per_s",
    *(
        f"latency.{name}.{origin}.{point}_ns"
        for name, origin in _LATENCIES
        for point in ("p50", "p90", "p99")
    ),
    "counts.failure_rate",
    "accuracy.score",
)
"""The metrics whose spread over repetitions is given, by their ids below ``metrics.<phase>``."""


def spread(phases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The spread of each of `SPREAD_OF` over the metrics of one phase, one for each repetition.

    Returns:
        By metric id ``values``, ``mean``, ``min``, ``max``, ``sd`` (n − 1 in the denominator) and
        ``interval`` of the mean by Student's t, in the metric's unit; or ``{"undefined": reason}`` where not
        every repetition has the metric.
    """
    return {metric: _spread([_value(phase, metric) for phase in phases]) for metric in SPREAD_OF}


def _value(phase: Mapping[str, Any], metric: str) -> float | int | None:
    value: Any = phase
    for part in metric.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float)) else None


def _spread(found: Sequence[float | int | None]) -> dict[str, Any]:
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        without = [str(number) for number, value in enumerate(found) if value is None]
        return undefined(f"not every repetition has it: {', '.join(without)} of {len(found)} do not")
    if len(values) < 2:
        return undefined("one repetition has no spread")
    n, mean = len(values), math.fsum(values) / len(values)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    return {
        "values": values,
        "mean": mean,
        "min": min(values),
        "max": max(values),
        "sd": sd,
        "interval": _interval(n, mean, sd),
    }


def _interval(n: int, mean: float, sd: float) -> dict[str, Any]:
    if n < _FEWEST:
        return undefined(f"needs {_FEWEST} repetitions, has {n}")
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2)) * sd / math.sqrt(n)
    return {
        "low": mean - half,
        "high": mean + half,
        "confidence": _CONFIDENCE,
        "method": "student-t over repetitions",
    }
