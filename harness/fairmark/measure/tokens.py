"""Token counts, where they came from, and whether they agree with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmark.measure.arrow import Int64s, present, select, tally, total
from fairmark.measure.chunks import Chunks
from fairmark.measure.distribution import lengths
from fairmark.measure.latency import NO_TOKENS
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio, undefined

__all__ = ["tokens"]


def tokens(phase: Phase, chunks: Chunks, terms: Terms) -> dict[str, Any]:
    """Token accounting over successes."""
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
            "over_limit": _over_limit(outputs, terms.max_output_tokens),
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


def _over_limit(outputs: Int64s, limit: int | None) -> int:
    """Successes that count more tokens than the scenario lets a system generate: the count is made up."""
    return 0 if limit is None else int(np.count_nonzero(outputs > limit))


def _mismatches(phase: Phase, chunks: Chunks) -> int:
    """Successes whose chunks all tell their token counts and do not add up to the output tokens."""
    sums = chunks.token_sums
    both = phase.ok & present(sums) & present(phase.output_tokens)
    return int(np.count_nonzero(sums[both] != phase.output_tokens[both]))
