"""Token counts, where they came from, and whether they agree with each other."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import Int64s, byte_lengths, int64s, kinds, present, select, tally, total
from fairmark.measure.chunks import Chunks
from fairmark.measure.distribution import lengths
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio, undefined

__all__ = ["tokens"]

_UNSEEN: Final = 8
"""Tokens of an answer that leave no byte: its end, a leading space that some tokenizers drop, an unfinished
character at the end."""


def tokens(
    phase: Phase, chunks: Chunks, terms: Terms, outputs_table: pa.Table, limits: Int64s
) -> dict[str, Any]:
    """Token accounting over successes; ``limits`` holds how many tokens each sample's answer may have."""
    if not terms.generates_tokens:
        return undefined(NO_TOKENS)
    served = select(phase.table, phase.ok)
    sources = tally(served, "output_token_source")
    inputs, outputs = phase.input_tokens[phase.ok], phase.output_tokens[phase.ok]
    input_sum, output_sum = _sum(inputs), _sum(outputs)
    cached = _sum(phase.cached_tokens[phase.ok])
    reasons = tally(served, "finish_reason")
    succeeded = len(outputs)
    missing = "no sample succeeded" if not succeeded else "not every success has a count"
    return group(
        {
            "output_sources": sources,
            "input_sources": tally(served, "input_token_source"),
            "output_source_count": len(sources),
            "output_missing": int((~present(outputs)).sum()),
            "input_missing": int((~present(inputs)).sum()),
            "input_tokens": input_sum,
            "output_tokens": output_sum,
            "input_lengths": _lengths(inputs, missing),
            "output_lengths": _lengths(outputs, missing),
            "finish_reasons": reasons,
            "cached_tokens": cached,
            "cached_share": None if cached is None or input_sum is None else ratio(cached, input_sum),
            "tokens_per_chunk": None if output_sum is None else ratio(output_sum, len(chunks)),
            "event_token_mismatch": _mismatches(phase, chunks),
            "over_bytes": _over_bytes(phase, terms, outputs_table),
            "input_varying": _varying(phase),
            "over_limit": _over_limit(outputs, limits[phase.ok]),
            "under_limit": _under_limit(phase, terms, limits),
            "limit_hit_share": ratio(reasons.get("length", 0), succeeded),
        },
        {
            "input_tokens": missing,
            "output_tokens": missing,
            "cached_tokens": "the server does not tell for every success",
            "cached_share": "the server does not tell for every success",
            "tokens_per_chunk": "no success has a token count and token-bearing chunks",
            "limit_hit_share": "no sample succeeded",
        },
    )


def _sum(values: Int64s) -> int | None:
    return total(values) if len(values) and present(values).all() else None


def _lengths(values: Int64s, missing: str) -> dict[str, Any]:
    known = values[present(values)]
    return lengths(known) if len(known) else undefined(missing)


def _over_limit(outputs: Int64s, limits: Int64s) -> int:
    """Successes that count more tokens than the scenario lets a system generate: the count is made up."""
    return int(np.count_nonzero(present(limits) & (outputs > limits)))


def _under_limit(phase: Phase, terms: Terms, limits: Int64s) -> int:
    """Successes with fewer tokens than ``ignore_eos`` asks for: their answers are shorter than the load.

    Let pass are two that may well have been made in full: an answer that a stop sequence of the scenario
    ended, and one that the server says reached its limit where only its text was counted, which does not
    show every token.
    """
    if not terms.ignore_eos:
        return 0
    short = phase.ok & present(limits) & present(phase.output_tokens) & (phase.output_tokens < limits)
    if terms.longest_stop_bytes:
        short &= ~kinds(phase.table, "finish_reason", "stop")
    by_text = kinds(phase.table, "output_token_source", "tokenizer")
    short &= ~(by_text & kinds(phase.table, "finish_reason", "length"))
    return int(np.count_nonzero(short))


def _over_bytes(phase: Phase, terms: Terms, outputs: pa.Table) -> int:
    """Successes for which ``usage`` counts more output tokens than the answer can be made of.

    A token that can be seen is at least one byte of text or reasoning. `_UNSEEN` more are let pass, and a
    stop sequence, whose tokens are generated and cut off. Tool calls are left out: their text is not kept.
    """
    size = np.zeros(len(phase), dtype=np.int64)
    order = np.argsort(seq := int64s(outputs, "seq"))
    if len(order):
        row = np.minimum(np.searchsorted(seq[order], phase.seq), len(order) - 1)
        held = byte_lengths(outputs, "text") + byte_lengths(outputs, "reasoning")
        size = np.where(seq[order][row] == phase.seq, held[order][row], 0)
    told = phase.ok & kinds(phase.table, "output_token_source", "usage")
    told &= ~kinds(phase.table, "finish_reason", "tool_calls", "function_call")
    return int(np.count_nonzero(told & (phase.output_tokens > size + _UNSEEN + terms.longest_stop_bytes)))


def _varying(phase: Phase) -> int:
    """Samples that were sent more than once and came back with different input token counts."""
    counted = phase.ok & present(phase.input_tokens)
    pairs = np.unique(np.stack([phase.sample_index[counted], phase.input_tokens[counted]]), axis=1)
    return int(np.count_nonzero(np.unique(pairs[0], return_counts=True)[1] > 1))


def _mismatches(phase: Phase, chunks: Chunks) -> int:
    """Successes whose chunks all tell their token counts and do not add up to the output tokens."""
    sums = chunks.token_sums
    both = phase.ok & present(sums) & present(phase.output_tokens)
    return int(np.count_nonzero(sums[both] != phase.output_tokens[both]))
