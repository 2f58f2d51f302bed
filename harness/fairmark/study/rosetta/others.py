"""Five more tools, by the formulas in their sources; none of them was run beside fairmark.

sglang (benchmark/serving.py @00f9ec47), aiperf (documentation of 2026, formulas of v0.1.1), inference-perf
(@7de5ef2), genai-bench (@7fd04d8), llmperf (@004d3afb).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairmark.measure.arrow import Flags, Int64s, present
from fairmark.study.rosetta.figures import Figure, Floats, Quantity, Tool, absent, figure, rate
from fairmark.study.rosetta.streams import TOKENS, Streams

__all__ = ["AIPERF", "GENAI_BENCH", "INFERENCE_PERF", "LLMPERF", "SGLANG"]

_NO_VALUE: Final = "no answer has what the formula needs"
_NO_COUNT: Final = "the server sent no token count: the tool would count with its own tokenizer"
_INTERPOLATED: Final = "interpolated between neighbours (numpy or pandas)"
_TAIL: Final = (50.0, 90.0, 95.0, 99.0)


def _answered(streams: Streams) -> Flags:
    answered: Flags = streams.arrived & (streams.number(*TOKENS) > 0)
    return answered


def _linear(quantity: Quantity, name: str, seconds: Floats) -> list[Figure]:
    """Mean and interpolated percentiles, as numpy and pandas give them by default."""
    if not len(seconds):
        return [absent(quantity, "mean", f"{name} mean", _NO_VALUE)]
    points = np.percentile(seconds, _TAIL)
    return [
        figure(quantity, "mean", f"{name} mean", float(seconds.mean()) * 1000),
        *(
            figure(quantity, f"p{p:g}", f"{name} p{p:g}", float(point) * 1000)
            for p, point in zip(_TAIL, points, strict=True)
        ),
    ]


def _counted(streams: Streams, success: Flags, window_s: float) -> list[Figure]:
    """The number of successes, and rates over ``window_s``."""
    figures = [
        figure("completed", "count", "requests", float(success.sum())),
        rate("requests", "requests/s", int(success.sum()), window_s),
    ]
    n, inputs = streams.phase.output_tokens[success], streams.phase.input_tokens[success]
    if not present(n).all():
        return [*figures, absent("output tokens", "rate", "output tokens/s", _NO_COUNT)]
    figures.append(rate("output tokens", "output tokens/s", int(n.sum()), window_s))
    if present(inputs).all():
        both = int(inputs.sum() + n.sum())
        figures.append(rate("total tokens", "total tokens/s", both, window_s))
    return figures


def _whole_s(streams: Streams) -> float:
    """From the first start to the last end, whatever came of it."""
    return (int(streams.phase.done.max()) - int(streams.phase.issued.min())) / 1e9


def _between(start: Int64s, end: Int64s, kept: Flags) -> Floats:
    seconds: Floats = (end - start)[kept & present(end)] / 1e9
    return seconds


def _per_later_token(streams: Streams, start: Int64s, end: Int64s, success: Flags) -> Floats:
    """(end - start) / (tokens - 1), for answers of at least two tokens."""
    n = streams.phase.output_tokens
    kept = success & (n > 1) & present(start) & present(end)
    seconds: Floats = (end - start)[kept] / 1e9 / (n[kept] - 1)
    return seconds


def _sglang(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _answered(streams)
    if not success.any():
        return [figure("completed", "count", "requests", 0.0)]
    first = streams.first("content")
    return [
        *_counted(streams, success, _whole_s(streams)),
        *_linear("ttft", "TTFT", _between(phase.issued, first, success)),
        *_linear("tpot", "TPOT", _per_later_token(streams, first, phase.completed, success)),
        *_linear("itl", "ITL", streams.gaps(success, "content") / 1e9),
        *_linear("e2e", "E2E Latency", _between(phase.issued, phase.completed, success)),
    ]


def _aiperf(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _answered(streams)
    if not success.any():
        return [figure("completed", "count", "Request Count", 0.0)]
    first, last = streams.first(*TOKENS), streams.last(*TOKENS)
    window_s = (int(last[success].max()) - int(phase.sent[success].min())) / 1e9
    return [
        *_counted(streams, success, window_s),
        *_linear("ttft", "Time to First Token", _between(phase.sent, first, success)),
        *_linear("itl", "Inter Token Latency", _per_later_token(streams, first, last, success)),
        *_linear("e2e", "Request Latency", _between(phase.sent, last, success)),
    ]


def _inference_perf(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _answered(streams)
    if not success.any():
        return [figure("completed", "count", "successes", 0.0)]
    first, last = streams.first("content"), streams.last("content")
    return [
        *_counted(streams, success, _whole_s(streams)),
        *_linear("ttft", "time_to_first_token", _between(phase.sent, first, success)),
        *_linear("tpot", "time_per_output_token", _per_later_token(streams, first, last, success)),
        *_linear("e2e", "request_latency", _between(phase.sent, phase.completed, success)),
    ]


def _genai_bench(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _answered(streams) & (streams.number("error") == 0)
    if not success.any():
        return [figure("completed", "count", "num_completed_requests", 0.0)]
    first = streams.first("content", "reasoning")
    return [
        *_counted(streams, success, _whole_s(streams)),
        *_linear("ttft", "ttft", _between(phase.sent, first, success)),
        *_linear("tpot", "tpot", _per_later_token(streams, first, phase.completed, success)),
        *_linear("e2e", "e2e_latency", _between(phase.sent, phase.completed, success)),
    ]


def _llmperf(streams: Streams) -> list[Figure]:
    phase, success = streams.phase, _answered(streams) & (streams.number("error") == 0)
    if not success.any():
        return [figure("completed", "count", "num_completed_requests", 0.0)]
    n = phase.output_tokens
    counted = success & (n > 0)
    return [
        *_counted(streams, success, _whole_s(streams)),
        *_linear("ttft", "ttft_s", _between(phase.sent, streams.first("content"), success)),
        *_linear("itl", "inter_token_latency_s", (phase.completed - phase.sent)[counted] / 1e9 / n[counted]),
        *_linear("e2e", "end_to_end_latency_s", _between(phase.sent, phase.completed, success)),
    ]


SGLANG: Final = Tool(
    id="sglang",
    title="sglang bench_serving",
    version="00f9ec47",
    proof="formula",
    figures=_sglang,
    percentiles=_INTERPOLATED,
    differs={
        "ttft": "from the client's start to the first message with text; reasoning does not count, and each"
        " request opens its own connection inside it",
        "tpot": "(last line - first) / (tokens - 1): the last line is that of the usage or the end marker",
        "itl": "gaps between messages with text, however many tokens each holds",
        "e2e": "to the last line of the stream, usage and end marker included",
        "requests": "over the whole run, ramp and drain included",
    },
)
AIPERF: Final = Tool(
    id="aiperf",
    title="aiperf",
    version="2026 documentation",
    proof="formula",
    figures=_aiperf,
    percentiles=_INTERPOLATED,
    differs={
        "ttft": "counts from the send, not from the schedule",
        "itl": "(last token - first) / (tokens - 1), one mean for each request: what others call TPOT",
        "e2e": "from the send to the last message with tokens; finish, usage and end marker are left out",
        "requests": "over the time from the first send to the last message with tokens",
    },
)
INFERENCE_PERF: Final = Tool(
    id="inference-perf",
    title="inference-perf",
    version="7de5ef2",
    proof="formula",
    figures=_inference_perf,
    percentiles=_INTERPOLATED,
    differs={
        "ttft": "to the first message with content: reasoning does not count",
        "tpot": "(last content - first content) / (tokens - 1), its tokens counted again from the text",
        "e2e": "counts from the send, not from the schedule",
        "requests": "over the whole run, ramp and drain included",
    },
)
GENAI_BENCH: Final = Tool(
    id="genai-bench",
    title="genai-bench",
    version="7fd04d8",
    proof="formula",
    figures=_genai_bench,
    percentiles=_INTERPOLATED,
    differs={
        "ttft": "counts from the send, not from the schedule",
        "tpot": "(E2E - TTFT) / (tokens - 1), where E2E ends with the parsing of the stream",
        "e2e": "counts from the send, not from the schedule",
    },
)
LLMPERF: Final = Tool(
    id="llmperf",
    title="llmperf",
    version="004d3afb",
    proof="formula",
    figures=_llmperf,
    percentiles=_INTERPOLATED,
    differs={
        "ttft": "to the first message with content, from the send",
        "itl": "E2E / tokens: the time to first token is inside",
        "e2e": "counts from the send, not from the schedule",
        "requests": "its loads come in waves, each of which waits for the slowest",
    },
)
