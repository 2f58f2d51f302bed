"""What LoadGen 6.0 would have reported for the same run, by its own names, defects included.

Source: results.cc (:149-380 conditions, :641-852 keys), logging.cc:475-553 (tokens). fairmark's own numbers
and verdict never rest on these; ``docs/loadgen-parity.md`` says where the two differ and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import Int64s
from fairmark.measure.distribution import percentile
from fairmark.measure.stopping import queries_needed, tail_size
from fairmark.measure.undefined import group, ratio
from fairmark.scenario.model import ScenarioKind

__all__ = ["REPORTED", "LoadGenLimits", "LoadGenRun", "loadgen_results", "loadgen_tpot"]

REPORTED: Final[Mapping[str, float]] = {
    "50.00": 0.50,
    "90.00": 0.90,
    "95.00": 0.95,
    "97.00": 0.97,
    "99.00": 0.99,
    "99.90": 0.999,
}
"""The percentiles that LoadGen prints, by the text in its keys (results.h:76)."""

_INFERRED_MULTI_STREAM: Final = 0.99
"""SingleStream also estimates this percentile, whatever its own is (results.cc:166)."""

_NO_TIME: Final = "the final query's time is 0, and LoadGen divides by it"
_UINT64: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class LoadGenLimits:
    """The settings that a result depends on, as LoadGen's effective ones.

    Attributes:
        fraction: the target percentile as a fraction, ``percent * 0.01``.
        min_query_count, min_sample_count: see `fairmark.traffic.settings.TrafficSettings`.
        target_latency_ns: Server, end to end.
        ttft_ns, tpot_ns: Server, in token mode.
        tokens: ``use_token_latencies``.
        tokens_per_sample: ``token_latency_scaling_factor``, when tokens are inferred from samples.
    """

    scenario: ScenarioKind
    fraction: float
    min_duration_ns: int
    min_query_count: int
    min_sample_count: int
    target_latency_ns: int = 100_000_000
    ttft_ns: int = 100_000_000
    tpot_ns: int = 100_000_000
    tokens: bool = False
    tokens_per_sample: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LoadGenRun:
    """One finished performance run.

    Attributes:
        latencies_ns: int64[samples], completion minus schedule.
        query_latencies_ns: int64[queries], for MultiStream: the last completion minus the schedule.
        queries_issued: how many.
        final_scheduled_ns, final_issued_ns, final_done_ns: of the query issued last, after the start.
        ttft_ns: int64[samples], first token minus schedule; token mode, except Offline.
        output_tokens: int64[samples], as the SUT reported them; token mode.
    """

    latencies_ns: Int64s
    queries_issued: int
    final_scheduled_ns: int
    final_issued_ns: int
    final_done_ns: int
    query_latencies_ns: Int64s | None = None
    ttft_ns: Int64s | None = None
    output_tokens: Int64s | None = None


def loadgen_results(run: LoadGenRun, limits: LoadGenLimits) -> dict[str, Any]:
    """LoadGen's ``result_*`` and ``early_stopping_*`` values; null with a reason where it prints NaN or inf.

    Early stopping's sentences are given as their numbers, ``early_stopping_result`` or, in token mode,
    ``early_stopping_ttft_result`` and ``early_stopping_tpot_result``.

    Raises:
        ValueError: no sample completed; LoadGen does not get as far as a result either.
    """
    if not len(run.latencies_ns):
        raise ValueError("a run without completed samples has no LoadGen result")
    summary = _Summary(run, limits)
    values = {
        **summary.verdict(),
        "result_query_count": run.queries_issued,
        **summary.overlatency(),
        **summary.rates(),
        **summary.latencies(),
        **summary.token_values(),
    }
    reasons = {name: _NO_TIME for name, value in values.items() if value is None}
    if values.get("early_stopping_ttft_result", ...) is None:
        reasons["early_stopping_ttft_result"] = "LoadGen skips it when TPOT has failed"
    return group(values, reasons)


def loadgen_tpot(latencies_ns: Int64s, ttft_ns: Int64s, output_tokens: Int64s) -> Int64s:
    """LoadGen's time per output token, with what it makes of counts below 2.

    A count of 1 or below 0 is an error to it and becomes 0, so that the divisor is -1 and the result
    negative; division truncates toward zero.
    """
    decode = latencies_ns - ttft_ns
    divisor = _counted_tokens(output_tokens) - 1
    tpot: Int64s = np.sign(decode) * np.sign(divisor) * (np.abs(decode) // np.abs(divisor))
    return tpot


def _counted_tokens(output_tokens: Int64s) -> Int64s:
    return np.where(output_tokens < 2, 0, output_tokens)


def _mean(values: Int64s, count: int) -> int:
    """A signed sum divided by an unsigned count, which C++ does in unsigned arithmetic."""
    quotient = (int(values.sum()) % _UINT64) // count
    return quotient - _UINT64 if quotient >= _UINT64 // 2 else quotient


class _Summary:
    """LoadGen's PerformanceSummary: sorted latencies and what is said about them."""

    def __init__(self, run: LoadGenRun, limits: LoadGenLimits) -> None:
        self._run, self._limits = run, limits
        self._latencies = np.sort(run.latencies_ns)
        queries = run.query_latencies_ns
        self._query_latencies = self._latencies if queries is None else np.sort(queries)
        self._ttft = self._tpot = self._latencies[:0]
        if limits.tokens and limits.scenario != "Offline":
            if run.ttft_ns is None or run.output_tokens is None:
                raise ValueError("token mode needs first tokens and token counts")
            self._ttft = np.sort(run.ttft_ns)
            self._tpot = np.sort(loadgen_tpot(run.latencies_ns, run.ttft_ns, run.output_tokens))
        self._estimate_ss = self._estimate_ms = 0

    def verdict(self) -> dict[str, Any]:
        stopped, details = self._early_stopping()
        conditions = {
            "result_perf_constraints_met": self._constraints_met(),
            "result_min_duration_met": self._duration_met(),
            "result_min_queries_met": self._counts_met(),
            "early_stopping_met": stopped,
        }
        valid = all(conditions.values())
        if self._limits.scenario != "Server":
            del conditions["result_perf_constraints_met"]
        return {"result_validity": "VALID" if valid else "INVALID", **conditions, **details}

    def _counts_met(self) -> bool:
        enough_samples = len(self._latencies) >= self._limits.min_sample_count
        return self._run.queries_issued >= self._limits.min_query_count and enough_samples

    def _duration_met(self) -> bool:
        reached_ns = {
            "Offline": int(self._latencies[-1]),
            "Server": self._run.final_scheduled_ns,
        }.get(self._limits.scenario, self._run.final_issued_ns)
        return reached_ns >= self._limits.min_duration_ns

    def _constraints_met(self) -> bool:
        limits = self._limits
        if limits.scenario != "Server":
            return True
        if not limits.tokens:
            return percentile(self._latencies, limits.fraction) <= limits.target_latency_ns
        ttft_met = percentile(self._ttft, limits.fraction) <= limits.ttft_ns
        return ttft_met and percentile(self._tpot, limits.fraction) <= limits.tpot_ns

    def _early_stopping(self) -> tuple[bool, dict[str, Any]]:
        limits = self._limits
        if not limits.tokens:
            met, details = self._stopping_on(self._latencies, limits.target_latency_ns)
            return met, {"early_stopping_result": details}
        tpot_met, tpot = self._stopping_on(self._tpot, limits.tpot_ns)
        ttft_met, ttft = self._stopping_on(self._ttft, limits.ttft_ns) if tpot_met else (False, None)
        results = {"early_stopping_ttft_result": ttft, "early_stopping_tpot_result": tpot}
        return tpot_met and ttft_met, results

    def _stopping_on(self, ordered: Int64s, bound_ns: int) -> tuple[bool, dict[str, Any]]:
        scenario, n, fraction = self._limits.scenario, self._run.queries_issued, self._limits.fraction
        if scenario == "Offline":
            return True, {}
        if scenario == "Server":
            over = len(ordered) - int(np.searchsorted(ordered, bound_ns, side="right"))
            more = queries_needed(over, fraction) - n
            return more <= 0, {"queries": n, "overlatency": over, "more_needed": max(more, 0)}
        found = _estimate(self._query_latencies if scenario == "MultiStream" else ordered, n, fraction)
        if found["estimate_ns"] is None:
            return False, found
        if scenario == "MultiStream":
            self._estimate_ms = found["estimate_ns"]
            return True, found
        self._estimate_ss = found["estimate_ns"]
        inferred = _estimate(ordered, n, _INFERRED_MULTI_STREAM)
        self._estimate_ms = self._estimate_ms if inferred["estimate_ns"] is None else inferred["estimate_ns"]
        return True, {**found, "multi_stream": inferred}

    def overlatency(self) -> dict[str, Any]:
        if self._limits.scenario != "Server":
            return {}
        over = int((self._latencies > self._limits.target_latency_ns).sum())
        return {"result_overlatency_query_count": over}

    def rates(self) -> dict[str, Any]:
        run, samples = self._run, len(self._latencies)
        max_s = int(self._latencies[-1]) / 1e9
        match self._limits.scenario:
            case "Server":
                values: dict[str, Any] = {
                    "result_scheduled_samples_per_sec": ratio(samples - 1, run.final_scheduled_ns / 1e9),
                    "result_completed_samples_per_sec": ratio(samples - 1, run.final_done_ns / 1e9),
                }
            case "Offline":
                values = {"result_samples_per_second": ratio(samples, max_s)}
            case "MultiStream":
                values = {**self._per_query(), "early_stopping_latency_ms": self._estimate_ms}
            case _:
                mean_s = _mean(self._latencies, samples) / 1e9
                values = {
                    "result_qps_with_loadgen_overhead": ratio(samples - 1, run.final_issued_ns / 1e9),
                    "result_qps_without_loadgen_overhead": ratio(1, mean_s),
                    "early_stopping_latency_ss": self._estimate_ss,
                    "early_stopping_latency_ms": self._estimate_ms,
                }
        return {**values, **self._inferred(max_s)}

    def _inferred(self, max_s: float) -> dict[str, Any]:
        """Tokens a second from samples a second, where the SUT does not count tokens (results.cc:826-851)."""
        factor, samples = self._limits.tokens_per_sample, len(self._latencies)
        if factor is None:
            return {}
        if self._limits.scenario == "Server":
            done_s = self._run.final_done_ns / 1e9
            return {"result_inferred_completed_tokens_per_second": ratio((samples - 1) * factor, done_s)}
        if self._limits.scenario == "Offline":
            return {"result_inferred_tokens_per_second": ratio(samples * factor, max_s)}
        return {}

    def _per_query(self) -> dict[str, Any]:
        ordered = self._query_latencies
        return {
            "result_min_query_latency_ns": int(ordered[0]),
            "result_max_query_latency_ns": int(ordered[-1]),
            "result_mean_query_latency_ns": _mean(ordered, len(ordered)),
            **_percentiles("result_{}_percentile_per_query_latency_ns", ordered),
        }

    def latencies(self) -> dict[str, Any]:
        ordered = self._latencies
        return {
            "result_min_latency_ns": int(ordered[0]),
            "result_max_latency_ns": int(ordered[-1]),
            "result_mean_latency_ns": _mean(ordered, len(ordered)),
            **_percentiles("result_{}_percentile_latency_ns", ordered),
        }

    def token_values(self) -> dict[str, Any]:
        run, samples = self._run, len(self._latencies)
        if not self._limits.tokens or run.output_tokens is None:
            return {}
        tokens = int(_counted_tokens(run.output_tokens).sum())
        if self._limits.scenario == "Offline":
            return {"result_tokens_per_second": ratio(tokens, int(self._latencies[-1]) / 1e9)}
        return {
            "result_first_token_min_latency_ns": int(self._ttft[0]),
            "result_first_token_max_latency_ns": int(self._ttft[-1]),
            "result_first_token_mean_latency_ns": _mean(self._ttft, samples),
            **_percentiles("result_first_token_{}_percentile_latency_ns", self._ttft),
            "result_token_throughput_with_loadgen_overhead": ratio(tokens, run.final_issued_ns / 1e9),
            # Tokens per nanosecond: the one rate that LoadGen leaves in its internal unit.
            "result_token_throughput": ratio(tokens, _mean(self._latencies, samples) * samples),
            **_percentiles("result_time_per_output_token_{}_percentile_ns", self._tpot),
            "result_time_to_output_token_min": int(self._tpot[0]),
            "result_time_to_output_token_max": int(self._tpot[-1]),
            "result_time_to_output_token_mean": _mean(self._tpot, samples),
            "result_completed_tokens_per_second": ratio(tokens, run.final_done_ns / 1e9),
        }


def _percentiles(key: str, ordered: Int64s) -> dict[str, int]:
    return {key.format(name): percentile(ordered, fraction) for name, fraction in REPORTED.items()}


def _estimate(ordered: Int64s, n: int, fraction: float) -> dict[str, Any]:
    """The early-stopping estimate sorted[n - t], with the t - 1 highest discarded, or what is missing."""
    needed, t = queries_needed(1, fraction), tail_size(n, fraction)
    enough = n >= needed
    return {
        "queries": n,
        "queries_needed": needed,
        "discarded": t - 1 if enough else None,
        "estimate_ns": int(ordered[n - t]) if enough else None,
    }
