"""The summary against the detail log: two prints of the same numbers (results.cc:382-639)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fairmark.mlperf.logs import Detail

__all__ = ["contradictions"]

Agrees = Callable[[str, Any], bool]

_SIX_DIGITS: Final = 1e-5
_PERCENTILES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")
_WORDS: Final = {True: ("Yes", "1"), False: ("NO", "0")}


def contradictions(summary: Mapping[str, str], detail: Detail) -> Iterator[str]:
    """A sentence for every line of the summary that says something else than the detail log."""
    for label, (key, agrees) in _lines(detail).items():
        text, value = summary.get(label), detail.get(key)
        if text is not None and value is not None and not agrees(text, value):
            yield f"{label!r} is {text} in the summary; {key} is {value} in the detail log"


def _exact(text: str, value: Any) -> bool:
    return text in _WORDS[value] if isinstance(value, bool) else text == str(value)


def _two_decimals(text: str, value: Any) -> bool:
    number = _number(text)
    return number is not None and abs(number - value) <= 0.005 + _SIX_DIGITS * abs(value)


def _six_digits(text: str, value: Any) -> bool:
    number = _number(text)
    return number is not None and abs(number - value) <= _SIX_DIGITS * abs(value)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _lines(detail: Detail) -> dict[str, tuple[str, Agrees]]:
    """Label to key and how far the two prints may be apart."""
    latency = "query_latency_ns" if detail.get("effective_scenario") == "MultiStream" else "latency_ns"
    per = "per_query_latency_ns" if detail.get("effective_scenario") == "MultiStream" else "latency_ns"
    exact = {
        "Scenario": "effective_scenario",
        "Mode": "effective_test_mode",
        "Result is": "result_validity",
        "Performance constraints satisfied": "result_perf_constraints_met",
        "Min duration satisfied": "result_min_duration_met",
        "Min queries satisfied": "result_min_queries_met",
        "Early stopping satisfied": "early_stopping_met",
        "ttft_latency (ns)": "requested_server_ttft_latency",
        "tpot_latency (ns)": "requested_server_tpot_latency",
        "min_duration (ms)": "effective_min_duration_ms",
        "max_duration (ms)": "effective_max_duration_ms",
        **{name: f"effective_{name}" for name in _PARAMETERS},
    }
    for name in ("Min", "Max", "Mean"):
        exact[f"{name} latency (ns)"] = f"result_{name.lower()}_{latency}"
        exact[f"{name} First Token latency (ns)"] = f"result_first_token_{name.lower()}_latency_ns"
        for spelling in ("Time to Output Token", "Time per Output Token"):
            exact[f"{name} {spelling} (ns)"] = f"result_time_to_output_token_{name.lower()}"
    for name in _PERCENTILES:
        exact[f"{name} percentile latency (ns)"] = f"result_{name}_percentile_{per}"
        exact[f"{name} percentile first token latency (ns)"] = (
            f"result_first_token_{name}_percentile_latency_ns"
        )
        exact[f"{name} percentile time to output token (ns)"] = (
            f"result_time_per_output_token_{name}_percentile_ns"
        )
    return {
        **{label: (key, _exact) for label, key in exact.items()},
        **{label: (key, _two_decimals) for label, key in _RATES.items()},
        **{label: (key, _six_digits) for label, key in _PRINTED_RATES.items()},
    }


_PARAMETERS: Final = (
    "samples_per_query",
    "max_async_queries",
    "min_query_count",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "performance_sample_count",
)

_RATES: Final = {
    "Completed samples per second": "result_completed_samples_per_sec",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
    "Completed tokens per second (inferred)": "result_inferred_completed_tokens_per_second",
}

_PRINTED_RATES: Final = {
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Tokens per second (inferred)": "result_inferred_tokens_per_second",
    "target_qps": "effective_target_qps",
}
