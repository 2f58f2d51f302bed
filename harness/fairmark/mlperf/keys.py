"""What LoadGen prints under the keys that are read here, so that a damaged value is said and not used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["expected", "fits"]

_SCENARIOS: Final = ("SingleStream", "MultiStream", "Server", "Offline")
_INT64: Final = 1 << 63
_LATENCY: Final = re.compile(r"(result|early_stopping)_.*(_ns|latency_ss|latency_ms|to_output_token_\w+)")


def _whole(value: Any, limit: int = _INT64) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _count(value: Any) -> bool:
    return _whole(value) and value >= 0


def _number(value: Any) -> bool:
    """No whole number beyond the doubles either."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "whole": ("a whole number", _whole),
    "count": ("a whole number >= 0", _count),
    "seed": ("a seed", lambda value: _whole(value, 1 << 64) and value >= 0),
    "number": ("a number", _number),
    "fraction": ("a fraction between 0 and 1", lambda value: _number(value) and 0 < value < 1),
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "text": ("a text", lambda value: isinstance(value, str)),
    "verdict": ("VALID or INVALID", lambda value: value in ("VALID", "INVALID")),
    "scenario": (f"one of {', '.join(_SCENARIOS)}", lambda value: value in _SCENARIOS),
    "indices": ("a list of indices", lambda value: isinstance(value, list) and all(map(_count, value))),
}

_KEYS: Final[Mapping[str, str]] = {
    "loadgen_version": "text",
    "qsl_reported_total_count": "count",
    "sut_name": "text",
    "loaded_qsl_set": "indices",
    "requested_use_token_latencies": "flag",
    "requested_server_ttft_latency": "count",
    "requested_server_tpot_latency": "count",
    "requested_min_query_count": "count",
    "requested_single_stream_expected_latency_ns": "number",
    "requested_multi_stream_expected_latency_ns": "number",
    "effective_scenario": "scenario",
    "effective_test_mode": "text",
    "effective_samples_per_query": "count",
    "effective_target_qps": "number",
    "effective_target_latency_ns": "count",
    "effective_target_latency_percentile": "fraction",
    "effective_min_duration_ms": "count",
    "effective_min_query_count": "count",
    "effective_performance_sample_count": "count",
    "effective_accuracy_sample_count": "count",
    "effective_performance_issue_unique": "flag",
    "effective_performance_issue_same": "flag",
    "effective_performance_issue_same_index": "count",
    "effective_sample_concatenate_permutation": "flag",
    "effective_qsl_rng_seed": "seed",
    "effective_sample_index_rng_seed": "seed",
    "effective_schedule_rng_seed": "seed",
    "generated_query_count": "count",
    "generated_samples_per_query": "count",
    "generated_query_duration": "count",
    "result_validity": "verdict",
    "result_perf_constraints_met": "flag",
    "result_min_duration_met": "flag",
    "result_min_queries_met": "flag",
    "early_stopping_met": "flag",
    "early_stopping_result": "text",
    "early_stopping_ttft_result": "text",
    "early_stopping_tpot_result": "text",
    "result_query_count": "count",
    "result_overlatency_query_count": "count",
    "result_samples_per_second": "number",
    "result_scheduled_samples_per_sec": "number",
    "result_completed_samples_per_sec": "number",
    "result_completed_tokens_per_second": "number",
    "result_token_throughput": "number",
    "result_qps_without_loadgen_overhead": "number",
    "result_qps_with_loadgen_overhead": "number",
    "result_tokens_per_second": "number",
    "result_inferred_tokens_per_second": "number",
    "result_inferred_completed_tokens_per_second": "number",
    "num_errors": "count",
}


def expected(key: str) -> str | None:
    """In words, what a key's value is; None for keys that nothing here reads."""
    kind = _kind(key)
    return None if kind is None else _KINDS[kind][0]


def fits(key: str, value: Any) -> bool:
    """Whether a value is what LoadGen can print under a key."""
    kind = _kind(key)
    return kind is None or _KINDS[kind][1](value)


def _kind(key: str) -> str | None:
    return _KEYS.get(key) or ("whole" if _LATENCY.fullmatch(key) else None)
