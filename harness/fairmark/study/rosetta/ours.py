"""fairmark's own figures beside those of the tools, from a record's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairmark.study.rosetta.figures import Figure, Quantity, absent, figure

__all__ = ["ours"]

_LATENCIES: Final[Mapping[Quantity, tuple[str, str]]] = {
    "ttft": ("ttft_ns", "from_schedule"),
    "tpot": ("tpot_ns", "between_events"),
    "itl": ("icl_ns", "between_events"),
    "e2e": ("e2e_ns", "from_schedule"),
}
_STATISTICS: Final = {
    "mean": "mean_ns",
    "p50": "p50_ns",
    "p90": "p90_ns",
    "p95": "p95_ns",
    "p99": "p99_ns",
} | {"p99.9": "p99_9_ns"}
_RATES: Final[Mapping[Quantity, str]] = {
    "requests": "qps",
    "output tokens": "output_tokens_per_s",
    "total tokens": "total_tokens_per_s",
}


def ours(metrics: Mapping[str, Any]) -> list[Figure]:
    """The headline figures of one phase (``metrics.performance`` or ``metrics.accuracy`` of a record)."""
    figures = [figure("completed", "count", "counts.completed", float(metrics["counts"]["completed"]))]
    for quantity, (metric, origin) in _LATENCIES.items():
        described = metrics["latency"][metric]
        name = f"{metric}.{origin}"
        if "undefined" in described:
            figures.append(absent(quantity, "mean", name, described["undefined"]))
            continue
        values = described[origin]
        figures += [
            figure(quantity, statistic, f"{name}.{key}", values[key] / 1e6)
            for statistic, key in _STATISTICS.items()
        ]
    rates = metrics["rates"]
    for quantity, name in _RATES.items():
        if rates[name] is None:
            figures.append(absent(quantity, "rate", f"rates.{name}", rates["reasons"][name]))
        else:
            figures.append(figure(quantity, "rate", f"rates.{name}", rates[name]))
    return figures
