"""Rates: queries and tokens per second, always with the mean lengths that give them meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmark.measure.arrow import Flags, Int64s, present, total
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio, undefined
from fairmark.measure.windows import steady_window

__all__ = ["rates"]

_NS_PER_S = 1e9


def _sum(values: Int64s, counted: Flags) -> int | None:
    """Sum over ``counted``; None if any of them has no value, so that no rate is silently too low."""
    chosen = values[counted]
    return total(chosen) if len(chosen) and present(chosen).all() else None


def rates(phase: Phase, terms: Terms) -> dict[str, Any]:
    """All rates over the whole window, and over the steady one beside it. Failed samples give no tokens."""
    duration = (int(phase.done.max()) - phase.start_ns) / _NS_PER_S if len(phase) else 0.0
    completed = int(phase.ok.sum())
    outputs, inputs = _sum(phase.output_tokens, phase.ok), _sum(phase.input_tokens, phase.ok)
    total = outputs + inputs if outputs is not None and inputs is not None else None
    no_tokens = _why_no_tokens(phase, terms)
    return group(
        {
            "qps": ratio(completed, duration),
            "attempt_qps": ratio(len(phase), duration),
            "offered_qps": _offered(phase, terms),
            "output_tokens_per_s": None if outputs is None else ratio(outputs, duration),
            "total_tokens_per_s": None if total is None else ratio(total, duration),
            "mean_input_tokens": None if inputs is None else ratio(inputs, completed),
            "mean_output_tokens": None if outputs is None else ratio(outputs, completed),
            "output_tokens_per_s_per_user": _per_user(phase),
            "steady": _steady(phase, no_tokens),
        },
        {
            "qps": "the window has no length",
            "attempt_qps": "the window has no length",
            "offered_qps": "only an open arrival process with two queries or more offers a rate",
            "output_tokens_per_s_per_user": no_tokens or "no success has a first token and at least 2 tokens",
            **dict.fromkeys(
                ("output_tokens_per_s", "total_tokens_per_s", "mean_input_tokens", "mean_output_tokens"),
                no_tokens or "the window has no length",
            ),
        },
    )


def _why_no_tokens(phase: Phase, terms: Terms) -> str:
    if not terms.generates_tokens:
        return NO_TOKENS
    if not phase.ok.any():
        return "no sample succeeded"
    if not (present(phase.output_tokens) & present(phase.input_tokens))[phase.ok].all():
        return "not every success has its token counts"
    return ""


def _offered(phase: Phase, terms: Terms) -> float | None:
    if not terms.open_loop or len(phase) < 2:
        return None
    return ratio(len(phase) - 1, (int(phase.scheduled.max()) - phase.start_ns) / _NS_PER_S)


def _per_user(phase: Phase) -> float | None:
    span = phase.completed - phase.first_token
    usable = present(phase.tpot()) & (span > 0)
    if not usable.any():
        return None
    return float(np.median((phase.output_tokens[usable] - 1) / span[usable]) * _NS_PER_S)


def _steady(phase: Phase, no_tokens: str) -> dict[str, Any]:
    bounds = steady_window(phase) if len(phase) else None
    if bounds is None:
        return undefined("no query was issued after the first completion")
    start, end = bounds
    inside = phase.ok & (phase.completed > start) & (phase.completed <= end)
    seconds = (end - start) / _NS_PER_S
    tokens = _sum(phase.output_tokens, inside)
    return group(
        {
            "start_ns": start,
            "end_ns": end,
            "qps": int(inside.sum()) / seconds,
            "output_tokens_per_s": None if tokens is None else tokens / seconds,
        },
        {"output_tokens_per_s": no_tokens or "no success inside the window"},
    )
