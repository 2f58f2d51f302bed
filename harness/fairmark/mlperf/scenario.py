"""LoadGen settings as the tables of a scenario file."""

from __future__ import annotations

from typing import Any, Final

from fairmark.errors import InputError
from fairmark.mlperf.conf import Resolved
from fairmark.traffic.settings import HIGHEST_QPS, LOWEST_QPS

__all__ = ["inexpressible", "scenario_tables"]

_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
_PREFIX = {"SingleStream": "single_stream", "MultiStream": "multi_stream", "Server": "server"}
_MOST: Final = 1 << 30
_LONGEST_MS: Final = 10**12


def scenario_tables(resolved: Resolved) -> dict[str, Any]:
    """The parts of a scenario that a LoadGen configuration decides; samples, model and accuracy it cannot.

    Zeros that mean "none" to LoadGen (limits, overrides, the end-to-end bound of token benchmarks) are left
    out.

    Raises:
        InputError: the scenario is not LoadGen's, two kinds of sampling are asked for at once, or no run can
            follow a value; the message names its file and line.
    """
    values, name = resolved.values, resolved.scenario
    if name not in _SCENARIOS:
        raise InputError("is not a LoadGen scenario", value=name, accepted=", ".join(_SCENARIOS))
    _check(resolved)
    run: dict[str, Any] = {
        "min_duration_s": _seconds(values["min_duration_ms"]),
        "min_query_count": values["min_query_count"],
        "sampling": _sampling(resolved),
    }
    if run["sampling"] == "same":
        run["same_index"] = values["performance_issue_same_index"]
    if name == "MultiStream":
        run["samples_per_query"] = values["multi_stream_samples_per_query"]
    if values["max_duration_ms"]:
        run["max_duration_s"] = _seconds(values["max_duration_ms"])
    if values["max_query_count"]:
        run["max_query_count"] = values["max_query_count"]
    if name == "Server" and values["server_max_async_queries"]:
        run["max_outstanding_queries"] = values["server_max_async_queries"]
    counts = {
        f"{mode}_sample_count": values[f"{mode}_sample_count_override"]
        for mode in ("performance", "accuracy")
        if values[f"{mode}_sample_count_override"]
    }
    return {
        "scenario": name,
        "samples": counts,
        "seeds": {seed: values[f"{seed}_rng_seed"] for seed in ("qsl", "sample_index", "schedule")},
        "run": run,
        "constraints": _constraints(resolved),
        "settings": {"target_qps": _target_qps(resolved)},
    }


def _check(resolved: Resolved) -> None:
    """Refuse what LoadGen would run with all the same: wrapped, infinite, contradicting values."""
    values, name = resolved.values, resolved.scenario

    def within(field: str, low: float, high: float, accepted: str) -> None:
        # False for NaN too.
        if not low <= float(values[field]) <= high:
            raise InputError(
                "is impossible",
                source=resolved.origin.get(field, "LoadGen"),
                field=field,
                value=values[field],
                accepted=accepted,
            )

    shortest, fewest = int(values["min_duration_ms"]), int(values["min_query_count"])
    within("min_duration_ms", 0, _LONGEST_MS, "0 to 1e12")
    within("min_query_count", 1, _MOST, "1 to 2^30")
    if values["max_duration_ms"]:
        within("max_duration_ms", shortest, _LONGEST_MS, f"0 for none, or {shortest}, the minimum, to 1e12")
    if values["max_query_count"]:
        within("max_query_count", fewest, _MOST, f"0 for none, or {fewest}, the minimum, to 2^30")
    if name == "Offline":
        within("offline_expected_qps", LOWEST_QPS, HIGHEST_QPS, f"{LOWEST_QPS:g} to {HIGHEST_QPS:g}")
        return
    within(f"{_PREFIX[name]}_target_latency_percentile", 1e-9, 1 - 1e-9, "a percentile above 0 and below 100")
    if name != "Server":
        slowest_ns, fastest_ns = 1e9 / LOWEST_QPS, 1e9 / HIGHEST_QPS
        within(f"{_PREFIX[name]}_expected_latency_ns", fastest_ns, slowest_ns, "1 ns to 1e6 s")
        within("multi_stream_samples_per_query", 1, _MOST, "1 to 2^30")
        return
    within("server_target_qps", LOWEST_QPS, HIGHEST_QPS, f"{LOWEST_QPS:g} to {HIGHEST_QPS:g}")
    bounds = (
        ("ttft_latency", "tpot_latency") if values["use_token_latencies"] else ("server_target_latency_ns",)
    )
    for bound in bounds:
        within(bound, 1, _LONGEST_MS * 1e6, "more than 0")


def inexpressible(resolved: Resolved) -> list[str]:
    """What LoadGen would do by these settings and a scenario does not say: one sentence each."""
    values = resolved.values
    told = {
        "server_coalesce_queries": resolved.scenario == "Server" and values["server_coalesce_queries"],
        "mode": values["mode"] == "FindPeakPerformance",
        "test05": values["test05"],
    }
    meaning = {
        "server_coalesce_queries": "merges late queries into one call; here every query is issued on its own",
        "mode": "searches the peak rate; a scenario is one rate",
        "test05": "takes other seeds; a scenario states its own",
    }
    return [
        f"{resolved.origin.get(field, 'LoadGen')}: {field} {meaning[field]}" for field in told if told[field]
    ]


def _seconds(milliseconds: Any) -> float:
    return float(milliseconds) / 1000


def _sampling(resolved: Resolved) -> str:
    asked = {
        "unique": "performance_issue_unique",
        "same": "performance_issue_same",
        "equal": "sample_concatenate_permutation",
    }
    chosen = [sampling for sampling, field in asked.items() if resolved.values[field]]
    if "unique" in chosen and "same" in chosen:
        raise InputError(
            "and performance_issue_same exclude each other",
            source=resolved.origin.get("performance_issue_unique"),
            field="performance_issue_unique",
        )
    # LoadGen consults its flags in this order, so the first one decides.
    return chosen[0] if chosen else "replacement"


def _constraints(resolved: Resolved) -> dict[str, Any]:
    values, name = resolved.values, resolved.scenario
    if name not in _PREFIX:
        return {}
    fraction = float(values[f"{_PREFIX[name]}_target_latency_percentile"])
    constraints: dict[str, Any] = {"percentile": round(fraction * 100, 9)}
    if name != "Server":
        return constraints
    if values["use_token_latencies"]:
        constraints["ttft_ms"] = float(values["ttft_latency"]) / 1e6
        constraints["tpot_ms"] = float(values["tpot_latency"]) / 1e6
    else:
        constraints["e2e_ms"] = float(values["server_target_latency_ns"]) / 1e6
    return constraints


def _target_qps(resolved: Resolved) -> float:
    values, name = resolved.values, resolved.scenario
    if name == "Server":
        return float(values["server_target_qps"])
    if name == "Offline":
        return float(values["offline_expected_qps"])
    return 1e9 / float(values[f"{_PREFIX[name]}_expected_latency_ns"])
