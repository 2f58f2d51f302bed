"""Random settings, run by LoadGen and planned by fairmark: no difference in order, times, counts, results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.measure.loadgen import LoadGenLimits, LoadGenRun, loadgen_results
from fairmark.mlperf.folder import read_folder
from fairmark.scenario.model import Seeds
from fairmark.traffic.accuracy_sampling import kept_samples, sampling_probability
from fairmark.traffic.plan import Plan, make_plan
from fairmark.traffic.settings import TrafficSettings

pytestmark = [pytest.mark.differential, pytest.mark.timeout(0)]

FEWER = max(40, settings.get_profile("differential").max_examples // 5)

FLAGS = {
    "replacement": None,
    "unique": "performance_issue_unique",
    "same": "performance_issue_same",
    "equal": "sample_concatenate_permutation",
}
CONDITIONS = {
    "result_perf_constraints_met": "loadgen-performance-constraint",
    "result_min_duration_met": "loadgen-min-duration",
    "result_min_queries_met": "loadgen-min-queries",
    "early_stopping_met": "loadgen-early-stopping",
}
SCENARIOS = ["SingleStream", "MultiStream", "Server", "Offline"]
SEED = st.integers(0, 2**64 - 1)


@st.composite
def traffic(draw: st.DrawFn, *, longest_ms: int, qps: st.SearchStrategy[float]) -> TrafficSettings:
    big = draw(st.integers(0, 19)) == 19
    total = draw(st.sampled_from([65535, 65536, 70000]) if big else st.integers(1, 400))
    small = total <= 400
    mode = draw(st.sampled_from(["performance", "performance", "accuracy"] if small else ["performance"]))
    samplings = ["replacement", "unique", "equal"] if mode == "accuracy" else list(FLAGS)
    scenario = draw(st.sampled_from(SCENARIOS if small else ["Offline", "SingleStream"]))
    sampling = draw(st.sampled_from(samplings if small or scenario == "Offline" else ["replacement", "same"]))
    performance = draw(st.integers(1, total)) if small else total
    rate = draw(qps)
    if scenario in ("SingleStream", "MultiStream"):
        rate = 1e9 / round(1e9 / rate)
    return TrafficSettings(
        scenario=scenario,
        mode=mode,
        total_sample_count=total,
        performance_sample_count=performance,
        accuracy_sample_count=draw(st.integers(1, total)),
        target_qps=rate,
        min_duration_ns=draw(st.integers(0, longest_ms)) * 1_000_000,
        min_query_count=draw(st.integers(1, 300)),
        seeds=Seeds(draw(SEED), draw(SEED), draw(SEED)),
        samples_per_query=draw(st.integers(1, 16)),
        sampling=sampling,
        same_index=draw(st.integers(0, performance - 1)) if sampling == "same" else 0,
    )


def as_case(s: TrafficSettings, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "min_duration_ms": s.min_duration_ns // 1_000_000,
        "min_query_count": s.min_query_count,
        "qsl_rng_seed": s.seeds.qsl,
        "sample_index_rng_seed": s.seeds.sample_index,
        "schedule_rng_seed": s.seeds.schedule,
        "accuracy_sample_count_override": s.accuracy_sample_count,
        "performance_issue_same_index": s.same_index,
        "multi_stream_samples_per_query": s.samples_per_query,
        "server_target_qps": s.target_qps,
        "offline_expected_qps": s.target_qps,
        "single_stream_expected_latency_ns": round(1e9 / s.target_qps),
        "multi_stream_expected_latency_ns": round(1e9 / s.target_qps),
    }
    if (flag := FLAGS[s.sampling]) is not None:
        values[flag] = True
    return {
        "scenario": s.scenario,
        "mode": "PerformanceOnly" if s.mode == "performance" else "AccuracyOnly",
        "total": s.total_sample_count,
        "performance": s.performance_sample_count,
        "delays_us": [0],
        "settings": values | changes,
    }


def queries_of(plan: Plan) -> list[list[int]]:
    offsets = plan.query_offsets
    return [q.tolist() for q in np.split(plan.sample_index, offsets[1:-1])]


def check_counts(run: Any, plan: Plan) -> None:
    sets = plan.sets
    assert run.answer["loaded"] == [s.samples.tolist() for s in sets]
    assert run.all("loaded_qsl_set") == [s.samples.tolist() for s in sets]
    assert run.all("generated_query_count") == [s.end_query - s.first_query for s in sets]
    assert run.all("generated_samples_per_query") == [s.samples_per_query for s in sets]
    assert run.all("generated_query_duration") == [s.generated_duration_ns for s in sets]
    effective = plan.settings
    assert run.one("effective_min_query_count") == effective.effective_min_query_count
    assert run.one("effective_samples_per_query") == effective.effective_samples_per_query
    assert run.one("effective_min_sample_count") == effective.min_sample_count


@settings(settings.get_profile("differential"))
@given(
    planned=traffic(longest_ms=600_000, qps=st.floats(0.5, 60.0)),
)
def test_full_length_plans(loadgen: Any, planned: TrafficSettings) -> None:
    """Everything LoadGen generates, while only three queries of it are sent."""
    if planned.mode == "accuracy" and planned.scenario == "Server":
        planned = TrafficSettings(
            **{f: getattr(planned, f) for f in planned.__slots__} | {"target_qps": 1e4 + planned.target_qps}
        )
    run = loadgen.run(as_case(planned, max_query_count=1 if planned.scenario == "Server" else 3))
    plan = make_plan(planned)
    check_counts(run, plan)
    issued = run.answer["queries"]
    assert issued == queries_of(plan)[: len(issued)]


def limits_of(s: TrafficSettings, case: dict[str, Any]) -> LoadGenLimits:
    values = case["settings"]
    percentile = {
        "SingleStream": "single_stream_target_latency_percentile",
        "MultiStream": "multi_stream_target_latency_percentile",
        "Server": "server_target_latency_percentile",
    }.get(s.scenario)
    return LoadGenLimits(
        scenario=s.scenario,
        fraction=0.99 if percentile is None else values[percentile],
        min_duration_ns=s.min_duration_ns,
        min_query_count=s.effective_min_query_count,
        min_sample_count=s.min_sample_count,
        target_latency_ns=values.get("server_target_latency_ns", 100_000_000),
        ttft_ns=values.get("ttft_latency", 0),
        tpot_ns=values.get("tpot_latency", 0),
        tokens=values.get("use_token_latencies", False),
    )


def measured(run: Any, plan: Plan, start_ns: int, **tokens: Any) -> LoadGenRun:
    """LoadGen's own stamps as the input of `loadgen_results`; ``start_ns`` on its trace's clock."""
    _, firsts = np.unique(run.query, return_index=True)
    by_query = np.maximum.reduceat(run.latency_ns, firsts)
    last = firsts[-1]
    if plan.settings.scenario == "Server":
        scheduled = int(plan.scheduled_ns[len(firsts) - 1])
    else:
        scheduled = int(run.scheduled_ns[last]) - start_ns
    return LoadGenRun(
        latencies_ns=run.latency_ns,
        queries_issued=len(firsts),
        final_scheduled_ns=scheduled,
        final_issued_ns=scheduled + int(run.issue_delay_ns[last]),
        final_done_ns=scheduled + int(by_query[-1]),
        query_latencies_ns=by_query if plan.settings.scenario == "MultiStream" else None,
        **tokens,
    )


def same(ours: Any, printed: Any) -> bool:
    """Integers and words exactly; doubles as LoadGen prints them, with six digits."""
    if isinstance(ours, float):
        return printed is not None and float(f"{ours:.6g}") == float(printed)
    return ours == printed


def check_sentence(text: str, ours: dict[str, Any], scenario: str) -> None:
    numbers = [int(x) for x in re.findall(r"(?<![\d.])\d+(?![\d.]|th)", text)]
    if scenario == "Server":
        wanted = [] if ours["more_needed"] == 0 else [ours["queries"], ours["more_needed"]]
    elif ours.get("estimate_ns") is None:
        wanted = [ours["queries"], ours["queries_needed"]] if ours else []
    else:
        wanted = [ours["queries_needed"], ours["queries"], ours["discarded"], ours["estimate_ns"]]
        if "multi_stream" in ours:
            inferred = ours["multi_stream"]
            known = inferred["estimate_ns"]
            wanted.append(inferred["queries_needed"] if known is None else known)
    assert numbers == wanted, text


START_DEPENDENT = {
    "result_qps_with_loadgen_overhead",
    "result_token_throughput_with_loadgen_overhead",
    "result_completed_tokens_per_second",
}


def check_between(low: float | None, printed: float, high: float | None, key: str) -> None:
    """A closed loop's start is not in the trace, only that it lies between generation and the first issue."""
    if low is not None and high is not None and low > 0:
        assert low * (1 - 1e-5) <= printed <= high * (1 + 1e-5), key


def check_results(run: Any, plan: Plan, limits: LoadGenLimits) -> None:
    early, late = (
        loadgen_results(measured(run, plan, start), limits)
        for start in (run.earliest_start_ns, run.latest_start_ns)
    )
    logged = dict(run.detail)
    if early["result_min_duration_met"] != late["result_min_duration_met"]:
        return
    for key, ours in late.items():
        if key == "reasons":
            continue
        if key == "early_stopping_result":
            check_sentence(logged[key], ours, limits.scenario)
        elif key in START_DEPENDENT:
            check_between(early[key], logged[key], late[key], key)
        else:
            assert same(ours, logged[key]), (key, ours, logged[key])
    printed = {k for k in logged if k.startswith(("result_", "early_stopping_"))}
    assert printed - {"result_invalid_reason"} == set(late) - {"reasons"}


@settings(settings.get_profile("differential"))
@given(
    planned=traffic(longest_ms=30, qps=st.floats(3000.0, 50000.0)),
    delays_us=st.lists(st.sampled_from([0, 0, 1, 5, 30, 200]), min_size=1, max_size=7),
    percentile=st.sampled_from([50, 80, 90, 95, 99, 99.9]),
    bound_us=st.sampled_from([0, 20, 100, 1000, 100_000]),
)
def test_whole_runs(
    loadgen: Any, planned: TrafficSettings, delays_us: list[int], percentile: float, bound_us: int
) -> None:
    """Every query sent: order, arrival times, and every printed result from LoadGen's own stamps."""
    changes = {
        f"{s}_target_latency_percentile": percentile * 0.01
        for s in ("single_stream", "multi_stream", "server")
    }
    case = as_case(planned, server_target_latency_ns=bound_us * 1000, **changes) | {"delays_us": delays_us}
    run = loadgen.run(case)
    plan = make_plan(planned)
    check_counts(run, plan)
    issued = run.answer["queries"]
    assert issued == queries_of(plan)[: len(issued)]
    assert run.sample_index.tolist() == plan.sample_index[: len(run.sample_index)].tolist()
    if planned.scenario != "SingleStream" and planned.scenario != "MultiStream":
        assert len(issued) == plan.query_count
    if planned.scenario == "Server":
        for s in plan.sets:
            scheduled = run.scheduled_ns[s.first_query : s.end_query]
            assert (scheduled - scheduled[0]).tolist() == plan.scheduled_ns[
                s.first_query : s.end_query
            ].tolist()
    if planned.mode == "performance":
        check_results(run, plan, limits_of(planned, case))
    check_reading(loadgen, run)


SOUND = {"loadgen-error-logged", "loadgen-warning-logged", "log-not-a-number", *CONDITIONS.values()}


def check_reading(loadgen: Any, run: Any) -> None:
    """LoadGen's own folder holds together, and what failed in it is found."""
    read = read_folder(loadgen.folder)
    assert read["loadgen_verdict"] == dict(run.detail).get("result_validity")
    found = {finding["id"] for finding in read["findings"]}
    assert found <= SOUND
    assert ("loadgen-error-logged" in found) == bool(run.errors)
    for key, name in CONDITIONS.items():
        assert (name in found) == (dict(run.detail).get(key) is False)


def bracket(run: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the most that each sample's first-token time can be, in ns.

    The trace has no first tokens. LoadGen stamps them by the system clock between two readings of ours; the
    trace's origin is printed to a quarter of a microsecond.
    """
    before, after = np.array(run.answer["first_tokens"], dtype=np.int64).T
    scheduled = run.origin_ns + run.scheduled_ns
    return before - scheduled - 1000, after - scheduled + 1000


@settings(settings.get_profile("differential"), max_examples=FEWER)
@given(
    planned=traffic(longest_ms=20, qps=st.floats(3000.0, 20000.0)).filter(
        lambda s: s.mode == "performance" and s.total_sample_count < 1000
    ),
    delays_us=st.lists(st.sampled_from([0, 5, 50, 300]), min_size=1, max_size=5),
    tokens=st.lists(st.sampled_from([2, 3, 10, 500, 2, 7, 1, 0, -4]), min_size=1, max_size=5),
    bounds=st.sampled_from([(10**12, 10**12), (0, 10**12), (10**12, 0)]),
)
def test_token_runs(
    loadgen: Any,
    planned: TrafficSettings,
    delays_us: list[int],
    tokens: list[int],
    bounds: tuple[int, int],
) -> None:
    """Token mode: counts, rates and verdict exactly, first-token statistics within the reading of clocks."""
    changes = {"use_token_latencies": True, "ttft_latency": bounds[0], "tpot_latency": bounds[1]}
    percentiles = {f"{s}_target_latency_percentile": 0.9 for s in ("single_stream", "multi_stream", "server")}
    case = as_case(planned, **changes, **percentiles) | {"delays_us": delays_us, "tokens": tokens}
    run, plan = loadgen.run(case), make_plan(planned)
    counts = np.array(run.answer["tokens"], dtype=np.int64)
    wrong = int((counts < 2).sum())
    assert sum("okens" in error for error in run.errors) == wrong
    low, high = bracket(run)
    slow_start = np.where(counts < 2, low, high)
    fast_start = np.where(counts < 2, high, low)
    limits = limits_of(planned, case)

    def results_with(ttft: np.ndarray, start_ns: int) -> dict[str, Any]:
        return loadgen_results(measured(run, plan, start_ns, ttft_ns=ttft, output_tokens=counts), limits)

    results = [results_with(ttft, run.latest_start_ns) for ttft in (low, high, slow_start, fast_start)]
    early = results_with(low, run.earliest_start_ns)
    logged = dict(run.detail)
    for key in START_DEPENDENT & early.keys():
        check_between(early[key], logged[key], results[0][key], key)
    for key, ours in results[0].items():
        if key == "reasons" or key.startswith("early_stopping") or key in START_DEPENDENT:
            continue
        between = key.startswith(("result_first_token", "result_time_"))
        if between:
            pair = results[:2] if key.startswith("result_first_token") else results[2:]
            within = pair[0][key] <= logged[key] <= pair[1][key]
            # A mean whose sum may lie on either side of 0 wraps around: LoadGen divides it unsigned.
            assert within or pair[0][key] > pair[1][key], key
        elif len({r[key] for r in results}) == 1:
            assert same(ours, logged[key]), (key, ours, logged[key])
    if len({r["early_stopping_met"] for r in results}) == 1:
        assert logged["early_stopping_met"] == results[0]["early_stopping_met"]
    if planned.scenario != "Offline" and len({r["early_stopping_ttft_result"] is None for r in results}) == 1:
        skipped = results[0]["early_stopping_ttft_result"] is None
        assert skipped == (logged["early_stopping_ttft_result"] == "")


@settings(settings.get_profile("differential"), max_examples=FEWER)
@given(
    planned=traffic(longest_ms=20, qps=st.floats(3000.0, 50000.0)).filter(lambda s: s.mode == "performance"),
    target=st.integers(1, 400),
    seed=SEED,
)
def test_accuracy_sampling(loadgen: Any, planned: TrafficSettings, target: int, seed: int) -> None:
    """Which responses of a performance run are logged."""
    case = as_case(planned, accuracy_log_sampling_target=target, accuracy_log_rng_seed=seed)
    run = loadgen.run(case)
    issued = sum(map(len, run.answer["queries"]))
    kept = kept_samples(issued, sampling_probability(planned, target), seed)
    assert sorted(run.logged) == kept.tolist()
