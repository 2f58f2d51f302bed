"""A phase as LoadGen would have seen it, for the numbers that it would have printed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import Int64s, present
from fairmark.measure.latency import query_latency
from fairmark.measure.loadgen import LoadGenLimits, LoadGenRun, loadgen_results
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import undefined
from fairmark.traffic.settings import DEFAULT_QPS, min_queries_of_equal_issue

__all__ = ["as_loadgen"]

_TOKEN_BOUNDS: Final = {"ttft", "tpot"}


def as_loadgen(phase: Phase, terms: Terms) -> dict[str, Any]:
    """LoadGen's results for the phase, by its own keys; undefined where LoadGen could not have run it."""
    refusal = _refusal(phase, terms)
    if refusal is not None:
        return undefined(refusal)
    tokens = _in_token_mode(phase, terms)
    return loadgen_results(_run(phase, tokens=tokens), _limits(terms, tokens=tokens))


def _refusal(phase: Phase, terms: Terms) -> str | None:
    if terms.kind == "Concurrency":
        return "LoadGen has no such scenario"
    if not len(phase):
        return "nothing was issued"
    if _whole_sets(terms) and terms.performance_sample_count is None:
        return "the minimum of queries follows from the size of the performance set, which is not known"
    if not phase.ok.all():
        return "LoadGen knows no failed query: it would have waited for ever"
    bounds = set(terms.limits.bounds_ns)
    if terms.kind == "Server" and bounds not in ({"e2e"}, _TOKEN_BOUNDS):
        return "LoadGen bounds either end-to-end latency, or TTFT and TPOT"
    if bounds == _TOKEN_BOUNDS and terms.kind == "Server" and not _in_token_mode(phase, terms):
        return "token latencies need a first token and a token count for every sample"
    return None


def _whole_sets(terms: Terms) -> bool:
    """Whether LoadGen raises the minimum of queries to whole passes over the performance set."""
    return terms.kind == "SingleStream" and terms.sampling == "equal"


def _in_token_mode(phase: Phase, terms: Terms) -> bool:
    """Whether the SUT could have reported first tokens and token counts (``use_token_latencies``)."""
    if not terms.generates_tokens or set(terms.limits.bounds_ns) == {"e2e"}:
        return False
    streamed = terms.kind == "Offline" or bool(present(phase.first_token).all())
    return streamed and bool(present(phase.output_tokens).all())


def _run(phase: Phase, *, tokens: bool) -> LoadGenRun:
    start = phase.start_ns
    last_query = phase.query[np.lexsort((phase.seq, phase.scheduled))[-1]]
    of_last = phase.query == last_query
    by_query, _, _ = query_latency(phase)
    return LoadGenRun(
        latencies_ns=elapsed(phase.scheduled, phase.completed),
        queries_issued=len(by_query),
        final_scheduled_ns=int(phase.scheduled[of_last].max()) - start,
        final_issued_ns=int(phase.issued[of_last].min()) - start,
        final_done_ns=int(phase.completed[of_last].max()) - start,
        query_latencies_ns=by_query,
        ttft_ns=_ttft(phase) if tokens else None,
        output_tokens=phase.output_tokens if tokens else None,
    )


def _ttft(phase: Phase) -> Int64s | None:
    return elapsed(phase.scheduled, phase.first_token) if present(phase.first_token).all() else None


def _limits(terms: Terms, *, tokens: bool) -> LoadGenLimits:
    """LoadGen's effective settings (test_settings_internal.cc:27-225); defaults where nothing is bound."""
    bounds = {f"{name}_ns": ns for name, ns in terms.limits.bounds_ns.items() if name != "e2e"}
    if "e2e" in terms.limits.bounds_ns:
        bounds["target_latency_ns"] = terms.limits.bounds_ns["e2e"]
    queries = samples = _min_queries(terms)
    if terms.kind == "MultiStream":
        samples *= terms.samples_per_query
    elif terms.kind == "Offline":
        queries = 1
    return LoadGenLimits(
        scenario=terms.kind,
        fraction=terms.limits.percentile,
        min_duration_ns=terms.min_duration_ns,
        min_query_count=queries,
        min_sample_count=samples,
        tokens=tokens,
        **bounds,
    )


def _min_queries(terms: Terms) -> int:
    if not _whole_sets(terms) or terms.performance_sample_count is None:
        return terms.min_query_count
    return min_queries_of_equal_issue(
        terms.min_query_count,
        min_duration_ns=terms.min_duration_ns,
        expected_qps=DEFAULT_QPS[terms.kind] if terms.target_qps is None else terms.target_qps,
        performance_sample_count=terms.performance_sample_count,
    )
