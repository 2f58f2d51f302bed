"""Faults of numbers that were reported against other load generators, one test each, by their ids."""

from __future__ import annotations

from typing import Any

import pytest

MS = 1_000_000


def row(
    first_ms: int | None, done_ms: int, tokens: int | None, *, at_ms: int = 0, **more: Any
) -> dict[str, Any]:
    """A streamed success; its first and last token come at ``first_ms``, unless ``more`` says otherwise."""
    at = at_ms * MS
    first = None if first_ms is None else at + first_ms * MS
    return {
        "scheduled_ns": at, "issued_ns": at, "sent_ns": at, "first_byte_ns": at, "first_token_ns": first,
        "last_token_ns": first, "completed_ns": at + done_ms * MS, "finish_reason": "stop",
        "input_tokens": 1, "input_token_source": "usage", "output_tokens": tokens,
        "output_token_source": None if tokens is None else "usage", **more,
    }  # fmt: skip


def lost(kind: str = "connect", **more: Any) -> dict[str, Any]:
    gone = {"failure": kind, "first_byte_ns": None, "finish_reason": None, **more}
    return row(None, 1, None, input_tokens=None, input_token_source=None, **gone)


def event(seq: int, ms: int, read: int, kind: str = "content", n: int | None = None) -> dict[str, Any]:
    return {"seq": seq, "arrival_ns": ms * MS, "read": read, "kind": kind, "n_tokens": n}


def test_r20_gaps_between_events_are_no_gaps_between_tokens(evidence_of, facts_of, measured) -> None:
    """vllm#27485: chunk gaps were called inter-token latency."""
    events = [event(0, 100, 0, n=1), event(0, 200, 1, n=10)]
    rows = [row(100, 200, 11, last_token_ns=200 * MS)]
    latency = measured(evidence_of(rows, events=events), facts_of())["latency"]
    assert latency["icl_ns"]["between_events"]["max_ns"] == 100 * MS
    assert latency["itl_ns"]["between_events"]["max_ns"] == 10 * MS


def test_r23_one_token_has_no_time_per_token(evidence_of, facts_of, measured) -> None:
    """vllm-omni#6693: 0.0 and negative values passed every upper bound."""
    rows = [row(100, 100, 1), row(100, 150, 6, at_ms=1, last_token_ns=151 * MS)]
    events = [event(0, 100, 0, n=1), event(1, 101, 0, n=1), event(1, 151, 1, n=5)]
    tpot = measured(evidence_of(rows, events=events), facts_of())["latency"]["tpot_ns"]["between_events"]
    assert (tpot["n"], tpot["min_ns"]) == (1, 10 * MS)
    alone = measured(evidence_of(rows[:1], events=events[:1]), facts_of())["latency"]["tpot_ns"]
    assert alone["undefined"]


def test_r24_a_row_without_tokens_or_time_ends_nothing(evidence_of, facts_of, measured) -> None:
    """llmperf#55: a division by zero ended the run."""
    rows = [row(10, 20, 3, at_ms=n) for n in range(8)] + [row(None, 5, 0, at_ms=8), row(0, 0, 1, at_ms=9)]
    found = measured(evidence_of(rows, events=[event(0, 10, 0, n=1)]), facts_of())
    assert found["counts"]["completed"] == 10


def test_r26_the_first_token_is_no_gap(evidence_of, facts_of, measured) -> None:
    """vllm#7242: TTFT was put among the gaps."""
    rows = [row(200, 230, 2, last_token_ns=230 * MS)]
    events = [
        event(0, 5, 0, "role", 0),
        event(0, 200, 1, n=1),
        event(0, 230, 2, n=1),
        event(0, 231, 3, "usage"),
    ]
    gaps = measured(evidence_of(rows, events=events), facts_of())["latency"]["icl_ns"]["between_events"]
    assert (gaps["n"], gaps["min_ns"], gaps["max_ns"]) == (1, 30 * MS, 30 * MS)


def test_r31_what_failed_is_in_no_rate(evidence_of, facts_of, measured) -> None:
    """endpoints#34: 60 of 60 connections failed and the report gave 166 queries a second."""
    found = measured(evidence_of([{**lost(), "scheduled_ns": n * MS} for n in range(60)]), facts_of())
    assert (found["counts"]["completed"], found["counts"]["failed"]) == (0, 60)
    assert found["latency"]["e2e_ns"]["undefined"]
    assert (found["rates"]["qps"], found["rates"]["output_tokens_per_s"]) == (0, None)


@pytest.mark.parametrize("failures", [0, 50])
def test_r32_failures_stand_beside_what_survived(evidence_of, facts_of, measured, failures: int) -> None:
    """aiperf#688: 250 of 256 got nothing, and p95 looked fine."""
    rows = [row(10, 20, 3, at_ms=n) for n in range(50)] + [lost("timeout") for _ in range(failures)]
    found = measured(evidence_of(rows), facts_of())
    assert found["counts"]["failed"] == failures
    assert found["latency"]["e2e_ns"]["from_send"]["n"] == 50
