"""``vllm bench serve``: vllm/benchmarks/serve.py (calculate_metrics) and lib/endpoint_request_func.py."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairmark.measure.arrow import Flags, Int64s, present
from fairmark.study.rosetta.figures import Figure, Floats, Quantity, Tool, absent, figure, rate
from fairmark.study.rosetta.streams import CHOICES, Streams

__all__ = ["VLLM", "request_seconds"]

NO_COUNT: Final = "the server sent no token count: the tool would count with its own tokenizer"
NOT_STREAMED: Final = "no answer was streamed: the tool would print 0.00"


def request_seconds(streams: Streams, success: Flags) -> tuple[Floats, Floats, Floats]:
    """TTFT, the gaps and the latency of the successes, in seconds: from the start to messages with choices.

    The start is when the client begins with the request. The first message with ``choices`` counts, the role
    message included; the answer ends with the last one, so usage and ``[DONE]`` do not count.
    """
    start = streams.phase.issued
    ttft = (streams.first(*CHOICES) - start)[success] / 1e9
    itl = streams.gaps(success, *CHOICES) / 1e9
    latency = (streams.last(*CHOICES) - start)[success] / 1e9
    return ttft, itl, latency


def _figures(streams: Streams) -> list[Figure]:
    success = streams.arrived & present(streams.first(*CHOICES))
    count = figure("completed", "count", "Successful requests", float(success.sum()))
    if not success.any():
        return [count]
    ttft, itl, latency = request_seconds(streams, success)
    n = streams.phase.output_tokens[success]
    counted = bool(present(n).all())
    decode = n > 1
    tpot = (latency - ttft)[decode] / (n[decode] - 1)
    latencies: tuple[tuple[Quantity, str, Floats, str | None], ...] = (
        ("ttft", "TTFT", ttft, None),
        ("tpot", "TPOT", tpot, None if counted else NO_COUNT),
        ("itl", "ITL", itl, None),
        ("e2e", "E2EL", latency, None),
    )
    figures = [f for quantity, name, values, why in latencies for f in _latency(quantity, name, values, why)]
    return [count, *figures, *_throughput(streams, success, n if counted else None)]


def _latency(quantity: Quantity, name: str, seconds: Floats, reason: str | None) -> list[Figure]:
    """Mean, median and p99 as printed by default; numpy interpolates between values."""
    labels = (("mean", f"Mean {name} (ms)"), ("p50", f"Median {name} (ms)"), ("p99", f"P99 {name} (ms)"))
    if reason is not None:
        return [absent(quantity, statistic, label, reason) for statistic, label in labels]
    values = seconds if len(seconds) else np.zeros(1)
    made = (np.mean(values), np.median(values), np.percentile(values, 99))
    return [
        figure(quantity, statistic, label, float(value) * 1000)
        for (statistic, label), value in zip(labels, made, strict=True)
    ]


def _throughput(streams: Streams, success: Flags, n: Int64s | None) -> list[Figure]:
    """Over the wall time from the first start to the last end, failures' time included."""
    duration_s = (int(streams.phase.done.max()) - int(streams.phase.issued.min())) / 1e9
    names = ("Output token throughput (tok/s)", "Total token throughput (tok/s)")
    requests = rate("requests", "Request throughput (req/s)", int(success.sum()), duration_s)
    inputs = streams.phase.input_tokens[success]
    if n is None:
        return [
            requests,
            absent("output tokens", "rate", names[0], NO_COUNT),
            absent("total tokens", "rate", names[1], NO_COUNT),
        ]
    output = rate("output tokens", names[0], int(n.sum()), duration_s)
    if not present(inputs).all():
        return [requests, output, absent("total tokens", "rate", names[1], NO_COUNT)]
    both = int(inputs.sum()) + int(n.sum())
    return [requests, output, rate("total tokens", names[1], both, duration_s)]


VLLM: Final = Tool(
    id="vllm",
    title="vLLM bench serve",
    version="0.32.0",
    proof="run",
    figures=_figures,
    percentiles="interpolated between neighbours (numpy)",
    differs={
        "ttft": "counts from the client's own start, not from the schedule, and ends with the first message"
        " that has choices: an empty role message counts as the first token",
        "tpot": "(last message with choices - first) / (tokens - 1): begins at the role message and ends"
        " before the body does",
        "itl": "gaps between messages, however many tokens each holds; role and finish messages add gaps",
        "e2e": "from the client's own start to the last message with choices",
        "requests": "over the wall time of the whole run, ramp and drain included",
        "output tokens": "over the wall time of the whole run, ramp and drain included",
        "total tokens": "over the wall time of the whole run, ramp and drain included",
        "completed": "one message with choices is enough: no finish reason and no end marker is asked for",
    },
)
