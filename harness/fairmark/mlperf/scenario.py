"""LoadGen settings as the tables of a scenario file."""

from __future__ import annotations

from typing import Any

from fairmark.errors import InputError
from fairmark.mlperf.conf import Resolved

__all__ = ["scenario_tables"]

_SCENARIOS = ("SingleStream", "MultiStream", "Server", "Offline")
_PREFIX = {"SingleStream": "single_stream", "MultiStream": "multi_stream", "Server": "server"}


def scenario_tables(resolved: Resolved) -> dict[str, Any]:
    """The parts of a scenario that a LoadGen configuration decides; samples, model and accuracy it cannot.

    Zeros that mean "none" to LoadGen (limits, overrides, the end-to-end bound of token benchmarks) are left
    out.

    Raises:
        InputError: the scenario is not LoadGen's, or two kinds of sampling are asked for at once.
    """
    values, name = resolved.values, resolved.scenario
    if name not in _SCENARIOS:
        raise InputError("is not a LoadGen scenario", value=name, accepted=", ".join(_SCENARIOS))
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
