"""guidellm: schemas/base/request_stats.py and statistics.py, benchmark/schemas/metrics.py."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairmark.measure.arrow import Flags, present
from fairmark.study.rosetta.figures import Figure, Floats, Quantity, Tool, absent, figure, rate
from fairmark.study.rosetta.streams import TOKENS, Streams

__all__ = ["GUIDELLM", "weighted_percentile"]

_NOT_STREAMED: Final = "no answer was streamed: the tool would print 0"
_IN_BAND: Final = ("error",)


def weighted_percentile(values: Floats, weights: Floats, fraction: float) -> float:
    """The first value at which the cumulated weight reaches ``fraction`` (Percentiles.from_pdf)."""
    distinct, position = np.unique(values, return_inverse=True)
    weight = np.zeros(len(distinct))
    np.add.at(weight, position, weights)
    distinct, weight = distinct[weight > 0], weight[weight > 0]
    at = int(np.searchsorted(np.cumsum(weight / weight.sum()), fraction, side="left"))
    return float(distinct[min(at, len(distinct) - 1)])


def _figures(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _successes(streams)
    count = figure("completed", "count", "Successful requests", float(success.sum()))
    if not success.any():
        return [count]
    start, end = phase.sent[success] / 1e9, _end(streams)[success] / 1e9
    first, last = streams.first(*TOKENS)[success], streams.last(*TOKENS)[success]
    streamed = bool(present(first).all())
    n = _output_tokens(streams)[success]
    once = np.ones(len(start))
    latencies = [*_latency("e2e", "Request Latency (ms)", (end - start) * 1000, once)]
    if streamed:
        latencies += _of_tokens(start, first / 1e9, last / 1e9, n)
    else:
        named: tuple[tuple[Quantity, str], ...] = (("ttft", "TTFT (ms)"), ("itl", "ITL (ms)"))
        latencies += [absent(q, s, name, _NOT_STREAMED) for q, name in named for s in ("mean", "p50", "p95")]
        latencies += _latency("tpot", "TPOT (ms)", 1000 * (end - start) / np.maximum(n, 1), n)
    return [count, *latencies, *_rates(streams, success, n, float(end.max() - start.min()))]


def _successes(streams: Streams) -> Flags:
    """An error message in the stream fails a request, and so does an answer without text and tokens."""
    answered = (streams.number(*TOKENS) > 0) | (streams.phase.output_tokens > 0)
    success: Flags = streams.arrived & answered & (streams.number(*_IN_BAND) == 0)
    return success


def _end(streams: Streams) -> Floats:
    """The client stops reading at the end marker."""
    marker = streams.first("end")
    ended: Floats = np.where(present(marker), marker, streams.phase.completed)
    return ended


def _output_tokens(streams: Streams) -> Floats:
    """The server's count; without one, each message with tokens counts as one token."""
    told = streams.phase.output_tokens
    counted: Floats = np.where(present(told), told, streams.number(*TOKENS)).astype(np.float64)
    return counted


def _of_tokens(start: Floats, first: Floats, last: Floats, n: Floats) -> list[Figure]:
    itl = np.where(n > 1, 1000 * (last - first) / np.maximum(n - 1, 1), 0.0)
    return [
        *_latency("ttft", "TTFT (ms)", 1000 * (first - start), np.ones(len(n))),
        *_latency("tpot", "TPOT (ms)", 1000 * (last - start) / np.maximum(n, 1), n),
        *_latency("itl", "ITL (ms)", itl, np.maximum(n - 1, 0)),
    ]


def _latency(quantity: Quantity, name: str, values: Floats, weights: Floats) -> list[Figure]:
    weights = weights if weights.sum() > 0 else np.ones(len(values))
    mean = float((values * (weights / weights.sum())).sum())
    return [
        figure(quantity, "mean", f"{name} mean", mean),
        figure(quantity, "p50", f"{name} mdn", weighted_percentile(values, weights, 0.5)),
        figure(quantity, "p95", f"{name} p95", weighted_percentile(values, weights, 0.95)),
    ]


def _rates(streams: Streams, success: Flags, n: Floats, window_s: float) -> list[Figure]:
    """Means of the rate over time, which are totals over the window from first start to last end."""
    inputs = streams.phase.input_tokens[success]
    rates = [
        rate("requests", "Requests/s mean", float(success.sum()), window_s),
        rate("output tokens", "Output tok/s mean", float(n.sum()), window_s),
    ]
    if present(inputs).all():
        both = float(inputs.sum() + n.sum())
        return [*rates, rate("total tokens", "Total tok/s mean", both, window_s)]
    return [*rates, absent("total tokens", "rate", "Total tok/s mean", "the server told no input lengths")]


GUIDELLM: Final = Tool(
    id="guidellm",
    title="guidellm",
    version="0.8.1",
    proof="run",
    figures=_figures,
    percentiles="the value at which the cumulated weight reaches p",
    differs={
        "ttft": "counts from the first header byte, not from the schedule",
        "tpot": "(last token - start) / tokens: the time to first token is inside; each request weighs as"
        " many times as it has tokens",
        "itl": "(last token - first) / (tokens - 1), one mean for each request, weighted by tokens: what"
        " others call TPOT; stalls inside a request are averaged away",
        "e2e": "from the first header byte to the end marker",
        "requests": "over the time from the first start to the last end",
        "output tokens": "over the time from the first start to the last end; token times are spread evenly"
        " between first and last",
        "total tokens": "over the time from the first start to the last end",
        "completed": "no finish reason is asked for",
    },
)
