"""Latencies of successes. Definitions: docs/metrics.md; what other tools do instead: its last section."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import ABSENT, Flags, Int64s, present
from fairmark.measure.chunks import Chunks
from fairmark.measure.distribution import Int32s, distribution, pooled
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.undefined import undefined

__all__ = ["NO_TOKENS", "identity", "latency", "query_latency"]

NO_TOKENS: Final = "not applicable: this scenario's answers are not tokens"
_OF_TOKENS: Final = (
    "ttft_ns",
    "ttfo_ns",
    "ntpot_ns",
    "tpot_ns",
    "tpot_decode_ns",
    "icl_ns",
    "itl_ns",
    "max_gap_ns",
)


def query_latency(phase: Phase) -> tuple[Int64s, Int64s, Flags]:
    """Per query, in plan order: time from schedule and from send to its last completion, and its success.

    Both are `ABSENT` for a query with a failed sample. LoadGen: loadgen.cc:583-590 (MultiStream).
    """
    if not len(phase):
        nothing = np.zeros(0, dtype=np.int64)
        return nothing, nothing, np.zeros(0, dtype=bool)
    order = np.argsort(phase.query, kind="stable")
    starts = np.flatnonzero(np.diff(phase.query[order], prepend=phase.query.min() - 1))
    ok = np.logical_and.reduceat(phase.ok[order], starts)
    done = np.where(ok, np.maximum.reduceat(phase.completed[order], starts), ABSENT)
    sent = np.minimum.reduceat(phase.sent[order], starts)
    return elapsed(phase.scheduled[order][starts], done), elapsed(sent, done), ok


def _described(values: Int64s, missing: str) -> dict[str, Any]:
    kept = values[present(values)]
    return distribution(kept) if len(kept) else undefined(missing)


def _two_origins(from_schedule: Int64s, from_send: Int64s, missing: str) -> dict[str, Any]:
    headline, service = _described(from_schedule, missing), _described(from_send, missing)
    if "undefined" in headline:
        return headline
    if "undefined" in service:
        return undefined("no success has a send stamp")
    return {"from_schedule": headline, "from_send": service}


def _one_origin(values: Int64s, missing: str) -> dict[str, Any]:
    described = _described(values, missing)
    return described if "undefined" in described else {"between_events": described}


def latency(phase: Phase, chunks: Chunks, *, generates_tokens: bool) -> dict[str, Any]:
    """Every latency metric of the phase (run.schema.json, ``latency``)."""

    def until(stamp: Int64s, missing: str) -> dict[str, Any]:
        reached = np.where(phase.ok, stamp, ABSENT)
        return _two_origins(elapsed(phase.scheduled, reached), elapsed(phase.sent, reached), missing)

    by_query = query_latency(phase)
    answered = {
        "ttfb_ns": until(phase.first_byte, _why(phase, "no success has a first-byte stamp")),
        "e2e_ns": until(phase.completed, _why(phase, "no success has a completion stamp")),
        "query_ns": _two_origins(by_query[0], by_query[1], _why(phase, "no query succeeded as a whole")),
        "wait_ns": _one_origin(
            np.where(phase.ok, elapsed(phase.scheduled, phase.sent), ABSENT),
            _why(phase, "no success has a send stamp"),
        ),
    }
    if not generates_tokens:
        return {**answered, **{name: undefined(NO_TOKENS) for name in _OF_TOKENS}}
    return {
        **answered,
        "ttft_ns": until(phase.first_token, _why(phase, "no success has a first-token stamp: not streamed")),
        "ttfo_ns": until(chunks.first_visible, _why(phase, "no success has a content event with a stamp")),
        "ntpot_ns": _ntpot(phase),
        "tpot_ns": _one_origin(
            phase.tpot(), _why(phase, "no success has a first token and at least 2 tokens")
        ),
        "tpot_decode_ns": _tpot_decode(phase, chunks),
        **_gap_metrics(phase, chunks),
    }


def _why(phase: Phase, otherwise: str) -> str:
    if not len(phase):
        return "nothing was issued"
    return otherwise if phase.ok.any() else "no sample succeeded"


def _ntpot(phase: Phase) -> dict[str, Any]:
    counted = phase.ok & (phase.output_tokens >= 1)
    n = np.where(counted, phase.output_tokens, 1)

    def shared(origin: Int64s) -> Int64s:
        whole = elapsed(origin, phase.completed)
        return np.where(counted & present(whole), whole // n, ABSENT)

    missing = _why(phase, "no success has an output token count of at least 1")
    return _two_origins(shared(phase.scheduled), shared(phase.sent), missing)


def _tpot_decode(phase: Phase, chunks: Chunks) -> dict[str, Any]:
    first = chunks.first_tokens
    later = np.where(present(first) & present(phase.output_tokens), phase.output_tokens - first, 0)
    span = elapsed(phase.first_token, phase.last_token)
    usable = phase.ok & (later >= 1) & present(span)
    values = np.where(usable, span // np.where(later >= 1, later, 1), ABSENT)
    return _one_origin(values, _why(phase, "the number of tokens in the first chunk is not known"))


def _gap_metrics(phase: Phase, chunks: Chunks) -> dict[str, Any]:
    missing = _why(phase, "no success has two token-bearing chunks")
    gaps, tokens = chunks.gaps, chunks.gap_tokens
    longest = _one_origin(chunks.longest_gap, missing)
    if not len(gaps):
        return {"icl_ns": undefined(missing), "itl_ns": undefined(missing), "max_gap_ns": longest}
    icl = {"between_events": pooled(gaps)}
    return {"icl_ns": icl, "itl_ns": _itl(gaps, tokens, icl), "max_gap_ns": longest}


def _itl(gaps: Int64s, tokens: Int32s | None, icl: dict[str, Any]) -> dict[str, Any]:
    """Each gap // tokens of the chunk it ends with, once per token."""
    if tokens is None:
        return icl
    if int(tokens.min()) < 1:
        return undefined("the wire does not say how many tokens each chunk holds")
    return {"between_events": pooled(gaps // tokens, tokens)}


def identity(phase: Phase) -> dict[str, Any]:
    """Check E2E = TTFT + TPOT * (n - 1) per sample; TPOT's truncation leaves a residual of 0 to n - 2 ns."""
    tpot = phase.tpot()
    held = present(tpot)
    if not held.any():
        return undefined(_why(phase, "no success has a first token and at least 2 tokens"))
    n = phase.output_tokens[held]
    e2e = elapsed(phase.scheduled, phase.completed)[held]
    ttft = elapsed(phase.scheduled, phase.first_token)[held]
    residual = np.abs(e2e - ttft - tpot[held] * (n - 1))
    return {
        "n": int(held.sum()),
        "max_residual_ns": int(residual.max()),
        "violations": int((residual >= n - 1).sum()),
    }
