"""MLCommons endpoints: services/metrics_aggregator (metrics_table.py, registry.py) and metrics/report.py."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairmark.measure.arrow import ABSENT, Flags, Int64s, present
from fairmark.study.rosetta.figures import Figure, Floats, Quantity, Tool, absent, figure, rate
from fairmark.study.rosetta.streams import TOKENS, Streams

__all__ = ["ENDPOINTS", "tokens_after_first"]

_STATISTICS: Final = (("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9))
_NO_FIRST: Final = "how many tokens the first message holds is not known: the tool would tokenise the rest"
_NO_COUNT: Final = "the server sent no token count: the tool counts with its own tokenizer"
_NOT_STREAMED: Final = "no answer was streamed"


def tokens_after_first(streams: Streams) -> Int64s:
    """Output tokens without those of the first message; `ABSENT` where the evidence cannot say.

    The tool tokenises the text after the first message. With as many messages as tokens, each holds one.
    """
    n, messages = streams.phase.output_tokens, streams.number(*TOKENS)
    return np.where(present(n) & (messages == n), n - 1, ABSENT)


def _figures(streams: Streams) -> list[Figure]:
    phase, done = streams.phase, streams.arrived
    count = figure("completed", "count", "Total samples completed", float(done.sum()))
    if not done.any():
        return [count]
    first = streams.first(*TOKENS)
    streamed = done & present(first)
    rest = tokens_after_first(streams)
    latency = (phase.completed - phase.issued)[done].astype(np.float64)
    figures = [count, *_series("e2e", "Latency", latency)]
    if not streamed.any():
        figures += [absent("ttft", "mean", "TTFT Avg. (ms)", _NOT_STREAMED)]
        figures += [absent("tpot", "mean", "TPOT Avg. (ms)", _NOT_STREAMED)]
        return [*figures, *_rates(streams, done)]
    figures += _series("ttft", "TTFT", (first - phase.issued)[streamed].astype(np.float64))
    known = streamed & (rest > 0)
    if present(rest[streamed]).all() and known.any():
        figures += _series("tpot", "TPOT", (phase.completed - first)[known] / rest[known])
    else:
        figures += [absent("tpot", "mean", "TPOT Avg. (ms)", _NO_FIRST)]
    return [*figures, *_rates(streams, done)]


def _series(quantity: Quantity, name: str, values_ns: Floats) -> list[Figure]:
    """Average and percentiles, which are values that occurred: the lower neighbour."""
    points = np.percentile(values_ns, [p for _, p in _STATISTICS], method="lower")
    return [
        figure(quantity, "mean", f"{name} Avg. (ms)", float(values_ns.mean()) / 1e6),
        *(
            figure(quantity, statistic, f"{name} {p:g} (ms)", float(point) / 1e6)
            for (statistic, p), point in zip(_STATISTICS, points, strict=True)
        ),
    ]


def _rates(streams: Streams, done: Flags) -> list[Figure]:
    """Poisson: (n - 1) over the time from the first issue to the end of the last issued; else n over all."""
    phase = streams.phase
    issued, completed = phase.issued[done], phase.completed[done]
    poisson = streams.terms.open_loop and streams.terms.process == "poisson" and len(issued) >= 2
    end = int(completed[int(np.argmax(issued))]) if poisson else int(completed.max())
    window_s = (end - int(phase.issued.min())) / 1e9
    requests = len(issued) - 1 if poisson else len(issued)
    n = phase.output_tokens[done]
    rates = [rate("requests", "QPS", requests, window_s)]
    if not present(n).all():
        return [*rates, absent("output tokens", "rate", "TPS", _NO_COUNT)]
    return [*rates, rate("output tokens", "TPS", int(n.sum()), window_s)]


ENDPOINTS: Final = Tool(
    id="endpoints",
    title="MLCommons endpoints",
    version="ea332753",
    proof="run",
    figures=_figures,
    percentiles="the lower neighbour, an observed value (numpy, method lower)",
    differs={
        "ttft": "counts from the issue, not from the schedule, to the message's receipt in the main process",
        "tpot": "(complete - first) / (tokens after the first message), counted by its own tokenizer",
        "e2e": "from the issue, not from the schedule",
        "requests": "Poisson: (n - 1) / (end of the last issued request - first issue), as LoadGen; else n /"
        " (last end - first issue)",
        "output tokens": "over the same window as its QPS; tokens are counted by its own tokenizer",
        "completed": "no finish reason is asked for; an error message inside a stream is passed over",
    },
)
