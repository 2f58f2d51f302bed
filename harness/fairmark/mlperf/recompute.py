"""Every number of a detail log that follows from its other numbers, computed again.

A log holds no latencies, so percentiles cannot be; but what they decide can, and so can the traffic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from fairmark.measure.stopping import queries_needed, tail_size
from fairmark.mlperf.logs import Detail
from fairmark.scenario.model import SamplingKind, ScenarioKind, Seeds
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.plan import Plan, make_plan
from fairmark.traffic.settings import HIGHEST_QPS, LONGEST_NS, LOWEST_QPS, TrafficSettings
from fairmark.traffic.shuffle import shuffled

__all__ = ["Check", "checks"]

_PRINTED: Final = 6
"""Significant digits of a double in the detail log (``ostream`` default)."""
_RELATIVE: Final = 1e-5
"""How far a value may be from one that was computed out of values printed with six digits."""
_LARGEST_PLAN: Final = 5_000_000
_LARGEST_COUNT: Final = 10**10
"""Beyond these a log is damaged, and computing on would only take long."""
_ORDERED: Final = ("min_{}", "50.00", "90.00", "95.00", "97.00", "99.00", "99.90", "max_{}")


@dataclass(frozen=True, slots=True)
class Check:
    """One printed value and what it should be. ``tolerance`` is relative; 0 means equal."""

    key: str
    printed: Any
    computed: Any
    tolerance: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the printed value is the computed one."""
        if self.tolerance and isinstance(self.printed, int | float):
            close: bool = abs(self.printed - self.computed) <= self.tolerance * abs(self.computed)
            return close
        same: bool = self.printed == self.computed
        return same


def checks(log: Detail) -> Iterator[Check]:
    """Everything that can be recomputed from this log and is printed in it."""
    for check in _all(log):
        if check.printed is not None and check.computed is not None:
            yield check


def _all(log: Detail) -> Iterator[Check]:
    if log.get("result_validity") is not None:
        yield from _conditions(log)
        yield from _discarded(log)
        yield from _rates(log)
        yield from _orders(log)
    if log.get("num_errors") is not None:
        errors = sum(entry.is_error for entry in log.entries)
        yield Check("num_errors", log.get("num_errors"), errors)
    yield from _traffic(log)


def _conditions(log: Detail) -> Iterator[Check]:
    names = ("result_perf_constraints_met", "result_min_duration_met", "result_min_queries_met")
    found = [log.get(name) for name in (*names, "early_stopping_met")]
    valid = all(value for value in found if value is not None)
    yield Check("result_validity", log.get("result_validity"), "VALID" if valid else "INVALID")
    yield Check("result_perf_constraints_met", log.get("result_perf_constraints_met"), _constraints(log))
    yield Check("result_min_duration_met", log.get("result_min_duration_met"), _duration_met(log))
    yield Check("early_stopping_met", log.get("early_stopping_met"), _stopped(log))


def _constraints(log: Detail) -> bool | None:
    """The Server constraint from the printed percentile, when that percentile is among the printed ones."""
    if log.get("effective_scenario") != "Server":
        return None
    percent = _percent(log)
    if percent is None:
        return None
    if log.get("requested_use_token_latencies"):
        limits = [
            (f"result_first_token_{percent}_percentile_latency_ns", "requested_server_ttft_latency"),
            (f"result_time_per_output_token_{percent}_percentile_ns", "requested_server_tpot_latency"),
        ]
    else:
        limits = [(f"result_{percent}_percentile_latency_ns", "effective_target_latency_ns")]
    pairs = [(log.get(value), log.get(limit)) for value, limit in limits]
    if any(value is None or limit is None for value, limit in pairs):
        return None
    return all(value <= limit for value, limit in pairs)


def _percent(log: Detail) -> str | None:
    fraction = log.get("effective_target_latency_percentile")
    return None if fraction is None else f"{fraction * 100:.2f}"


def _duration_met(log: Detail) -> bool | None:
    """Offline from its longest latency, Server from its planned schedule; closed loops leave no trace."""
    floor_ms, longest = log.get("effective_min_duration_ms"), log.get("result_max_latency_ns")
    if log.get("effective_scenario") != "Offline" or floor_ms is None or longest is None:
        return None
    return bool(longest >= floor_ms * 1_000_000)


def _stopped(log: Detail) -> bool | None:
    """Early stopping from the count over the bound (Server) or the number of queries (closed loops)."""
    scenario, n = log.get("effective_scenario"), log.get("result_query_count")
    fraction = log.get("effective_target_latency_percentile")
    if scenario == "Offline":
        return True
    target = _target(fraction)
    if target is None or n is None or n > _LARGEST_COUNT:
        return None
    if scenario in ("SingleStream", "MultiStream"):
        return bool(n >= queries_needed(1, target))
    over = log.get("result_overlatency_query_count")
    if over is None or over > n or log.get("requested_use_token_latencies"):
        return None
    return bool(n >= queries_needed(over, target))


def _target(fraction: float | None) -> float | None:
    """LoadGen's double for a percentile printed in six digits; None for one that rounds to 0 or 100 %."""
    target = None if fraction is None else round(fraction * 100, _PRINTED) * 0.01
    return target if target is not None and 0 < target < 1 else None


def _discarded(log: Detail) -> Iterator[Check]:
    """How many of the highest latencies early stopping's sentence leaves out (SingleStream, MultiStream)."""
    n, fraction = log.get("result_query_count"), log.get("effective_target_latency_percentile")
    target = _target(fraction)
    if n is None or target is None or n > _LARGEST_COUNT:
        return
    for key in ("early_stopping_result", "early_stopping_ttft_result", "early_stopping_tpot_result"):
        sentence = re.search(r"discard (\d{1,18}) highest", log.get(key) or "")
        if sentence is not None:
            computed = tail_size(n, target) - 1
            yield Check(key, int(sentence[1]), computed)


def _rates(log: Detail) -> Iterator[Check]:
    mean, longest = log.get("result_mean_latency_ns"), log.get("result_max_latency_ns")
    match log.get("effective_scenario"):
        case "Offline" if longest:
            samples = log.get("generated_samples_per_query")
            key = "result_samples_per_second"
            computed = samples / (longest / 1e9) if samples else None
            yield Check(key, log.get(key), computed, _RELATIVE)
        case "SingleStream" if mean:
            key = "result_qps_without_loadgen_overhead"
            yield Check(key, log.get(key), 1e9 / mean, _RELATIVE)
        case "Server" if mean:
            yield from _token_rate(log, mean)


def _token_rate(log: Detail, mean: int) -> Iterator[Check]:
    """Two token rates of a Server log have the same tokens and must give the same count of them."""
    n, per_ns = log.get("result_query_count"), log.get("result_token_throughput")
    samples_per_s = log.get("result_completed_samples_per_sec")
    if not (n and n > 1 and per_ns and samples_per_s):
        return
    tokens, done_s = per_ns * mean * n, (n - 1) / samples_per_s
    key = "result_completed_tokens_per_second"
    yield Check(key, log.get(key), tokens / done_s, 3 * _RELATIVE)


def _orders(log: Detail) -> Iterator[Check]:
    """Minimum, percentiles and maximum rise."""
    families = {
        "result_{}_percentile_latency_ns": "result_{}_latency_ns",
        "result_{}_percentile_per_query_latency_ns": "result_{}_query_latency_ns",
        "result_first_token_{}_percentile_latency_ns": "result_first_token_{}_latency_ns",
    }
    for family, ends in families.items():
        names = [ends.format("min"), *map(family.format, _ORDERED[1:-1]), ends.format("max")]
        values = [log.get(name) for name in names]
        if all(isinstance(value, int) for value in values):
            yield Check(family.format("*"), values, sorted(values))


def _traffic(log: Detail) -> Iterator[Check]:
    """The plan that the seeds and settings give, against what was generated and scheduled."""
    yield from _loaded(log)
    # Version 4 leaves equal issue out of some logs and generates Offline by another rule.
    plan = _plan(log) if _major(log) >= 5 else None
    if plan is None:
        return
    only = plan.sets[0]
    yield Check("generated_query_count", log.get("generated_query_count"), plan.query_count)
    yield Check("generated_samples_per_query", log.get("generated_samples_per_query"), only.samples_per_query)
    yield Check("generated_query_duration", log.get("generated_query_duration"), only.generated_duration_ns)
    if log.get("effective_scenario") == "Server":
        key, n = "result_scheduled_samples_per_sec", log.get("result_query_count")
        if n is not None and 1 < n <= plan.query_count:
            last_s = int(plan.scheduled_ns[n - 1]) / 1e9
            yield Check(key, log.get(key), (n - 1) / last_s if last_s else None, _RELATIVE)


def _loaded(log: Detail) -> Iterator[Check]:
    """The first loaded set. Before version 6 the whole library was shuffled and cut, not its first rows."""
    loaded, seed = log.get("loaded_qsl_set"), log.get("effective_qsl_rng_seed")
    total, size = log.get("qsl_reported_total_count"), log.get("effective_performance_sample_count")
    if log.get("effective_test_mode") == "AccuracyOnly":
        size = None
    if loaded is None or seed is None or not total or not size or max(total, size) > _LARGEST_PLAN:
        return
    shuffled_rows = total if _major(log) < 6 else min(size, total)
    order = shuffled(Mt19937(seed), shuffled_rows)[:size]
    yield Check("loaded_qsl_set", loaded, np.resize(order, max(len(loaded), len(order))).tolist())


def _major(log: Detail) -> int:
    match = re.match(r"\d+", str(log.get("loadgen_version") or ""))
    return int(match[0]) if match else 0


def _plan(log: Detail) -> Plan | None:
    """The performance plan; None where the log does not say enough, or only in six digits."""
    settings = _traffic_settings(log)
    if settings is None:
        return None
    per_query = settings.effective_samples_per_query
    queries = max(settings.effective_min_query_count, settings.generation_ns / 1e9 * settings.target_qps)
    too_much = queries * per_query > _LARGEST_PLAN or settings.expected_ns > LONGEST_NS
    if too_much or settings.same_index >= settings.performance_sample_count:
        return None
    return make_plan(settings)


def _traffic_settings(log: Detail) -> TrafficSettings | None:
    qps, count = _rate(log), _set_size(log)
    scenario: ScenarioKind | None = log.get("effective_scenario")
    floor, duration_ms = log.get("requested_min_query_count"), log.get("effective_min_duration_ms")
    seeds = [log.get(f"effective_{name}_rng_seed") for name in ("qsl", "sample_index", "schedule")]
    if None in (scenario, duration_ms, *seeds) or not (qps and count and floor):
        return None
    if scenario is None or log.get("effective_test_mode") != "PerformanceOnly":
        return None
    return TrafficSettings(
        scenario=scenario,
        mode="performance",
        total_sample_count=count,
        performance_sample_count=count,
        accuracy_sample_count=count,
        target_qps=qps,
        min_duration_ns=duration_ms * 1_000_000,
        min_query_count=floor,
        seeds=Seeds(*seeds),
        samples_per_query=_stride(log),
        sampling=_sampling(log),
        same_index=log.get("effective_performance_issue_same_index") or 0,
    )


def _stride(log: Detail) -> int:
    """Samples a MultiStream query takes from the loaded set."""
    return log.get("effective_samples_per_query") or 1


def _set_size(log: Detail) -> int | None:
    """Distinct samples of the loaded set: MultiStream pads it."""
    loaded: list[int] | None = log.get("loaded_qsl_set")
    padding = _stride(log) - 1 if log.get("effective_scenario") == "MultiStream" else 0
    size = log.get("effective_performance_sample_count") if loaded is None else len(loaded) - padding
    return size if size is not None and 0 < size <= _LARGEST_PLAN and padding <= _LARGEST_PLAN else None


def _sampling(log: Detail) -> SamplingKind:
    if log.get("effective_performance_issue_unique"):
        return "unique"
    if log.get("effective_performance_issue_same"):
        return "same"
    return "equal" if log.get("effective_sample_concatenate_permutation") else "replacement"


def _rate(log: Detail) -> float | None:
    """The rate the schedule was made with, if the log has all its digits."""
    scenario = log.get("effective_scenario")
    latency = {
        "SingleStream": "requested_single_stream_expected_latency_ns",
        "MultiStream": "requested_multi_stream_expected_latency_ns",
    }.get(scenario)
    value = log.get(latency or "effective_target_qps")
    if value is None or value <= 0 or _digits(value) >= _PRINTED:
        return None
    rate = 1e9 / value if latency else float(value)
    return rate if LOWEST_QPS <= rate <= HIGHEST_QPS else None


def _digits(value: float) -> int:
    """Significant digits of a printed number; six may be a rounded one."""
    return len(re.sub(r"e.*|\D", "", f"{value:.15g}").strip("0"))
