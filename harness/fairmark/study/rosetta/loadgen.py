"""MLCommons LoadGen 6.0: loadgen/results.cc and logging.cc, by `fairmark.measure.loadgen`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from fairmark.measure.arrow import present
from fairmark.measure.as_loadgen import as_loadgen
from fairmark.measure.terms import Limits, Terms
from fairmark.study.rosetta.figures import Figure, Quantity, Tool, absent, figure
from fairmark.study.rosetta.streams import Streams

__all__ = ["LOADGEN"]

_PERCENTILES: Final = {"p50": "50.00", "p90": "90.00", "p95": "95.00", "p99": "99.00", "p99.9": "99.90"}
_LATENCIES: Final[Mapping[Quantity, tuple[str, str]]] = {
    "e2e": ("result_mean_latency_ns", "result_{}_percentile_latency_ns"),
    "ttft": ("result_first_token_mean_latency_ns", "result_first_token_{}_percentile_latency_ns"),
    "tpot": ("result_time_to_output_token_mean", "result_time_per_output_token_{}_percentile_ns"),
}
_RATES: Final[Mapping[Quantity, tuple[str, ...]]] = {
    "requests": (
        "result_completed_samples_per_sec",
        "result_samples_per_second",
        "result_qps_with_loadgen_overhead",
    ),
    "output tokens": (
        "result_completed_tokens_per_second",
        "result_tokens_per_second",
        "result_token_throughput_with_loadgen_overhead",
    ),
}
_NO_TOKENS: Final = "token latencies need a first token and a token count for every sample"


def _figures(streams: Streams) -> list[Figure]:
    """What the summary of a performance run holds; the bounds decide its verdict and none of these."""
    phase = streams.phase
    tokens = bool((present(phase.first_token) & present(phase.output_tokens)).all())
    values = as_loadgen(phase, _with_bounds(streams.terms, tokens=tokens))
    if "undefined" in values:
        return [absent("e2e", "mean", "result_mean_latency_ns", values["undefined"])]
    figures = [figure("completed", "count", "result_query_count", float(values["result_query_count"]))]
    for quantity in _LATENCIES:
        figures += _latency(quantity, values)
    for quantity, names in _RATES.items():
        figures += [_rate(quantity, name, values) for name in names if name in values]
    return figures


def _with_bounds(terms: Terms, *, tokens: bool) -> Terms:
    """LoadGen's Server is bound by latency, or by TTFT and TPOT, which switches on what it prints."""
    bounds = {"ttft": 1, "tpot": 1} if tokens else {"e2e": 1}
    limits = Limits(terms.limits.percentile, bounds, terms.limits.max_failure_rate)
    return dataclasses.replace(terms, limits=limits)


def _latency(quantity: Quantity, values: Mapping[str, Any]) -> list[Figure]:
    mean, point = _LATENCIES[quantity]
    names = {"mean": mean} | {statistic: point.format(text) for statistic, text in _PERCENTILES.items()}
    return [
        figure(quantity, statistic, name, values[name] / 1e6)
        if name in values
        else absent(quantity, statistic, name, _NO_TOKENS)
        for statistic, name in names.items()
    ]


def _rate(quantity: Quantity, name: str, values: Mapping[str, Any]) -> Figure:
    value = values[name]
    if value is None:
        return absent(quantity, "rate", name, values["reasons"][name])
    return figure(quantity, "rate", name, value)


LOADGEN: Final = Tool(
    id="loadgen",
    title="MLCommons LoadGen",
    version="6.0",
    proof="run",
    figures=_figures,
    percentiles="sorted[int(n * p)], an observed value; fairmark's too",
    differs={
        "tpot": "(complete - first token) / (tokens - 1): fairmark's too, which takes it from here",
        "requests": "Server: (samples - 1) / (end of the last issued query), so what still runs then is left"
        " out; SingleStream and MultiStream: (samples - 1) / (last issue)",
        "output tokens": "all tokens over the same time as its samples a second",
        "completed": "there is no failed query: it waits",
    },
)
