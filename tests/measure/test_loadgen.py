"""Hand-computed LoadGen results. Numbers in names are the properties of the LoadGen reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairmark.measure.loadgen import LoadGenLimits, LoadGenRun, loadgen_results, loadgen_tpot

MS = 1_000_000


def limits(scenario: str, **changes: Any) -> LoadGenLimits:
    fraction = 0.9 if scenario == "SingleStream" else 0.99
    values = {"fraction": fraction, "min_duration_ns": 0, "min_query_count": 1, "min_sample_count": 1}
    return LoadGenLimits(scenario=scenario, **(values | changes))  # type: ignore[arg-type]


def ran(latencies: Any, **changes: Any) -> LoadGenRun:
    values = np.asarray(latencies, dtype=np.int64)
    n = len(values)
    base: dict[str, Any] = {
        "queries_issued": n,
        "final_scheduled_ns": 1000 * MS,
        "final_issued_ns": 1000 * MS,
        "final_done_ns": 2000 * MS,
    }
    return LoadGenRun(latencies_ns=values, **(base | changes))


def server(n: int, over: int, **changes: Any) -> dict[str, Any]:
    """n queries at the bound of 100 ms, of which some are 1 ns over it."""
    latencies = [100 * MS + 1] * over + [100 * MS] * (n - over)
    return loadgen_results(ran(latencies), limits("Server", **changes))


def test_property_25_what_the_minimum_duration_is_judged_on() -> None:
    late = {"final_scheduled_ns": 9 * MS, "final_issued_ns": 99 * MS}
    by_schedule = loadgen_results(ran([1], **late), limits("Server", min_duration_ns=10 * MS))
    by_issue = loadgen_results(ran([1], **late), limits("SingleStream", min_duration_ns=99 * MS))
    by_latency = loadgen_results(ran([99, 100]), limits("Offline", min_duration_ns=100))
    assert not by_schedule["result_min_duration_met"]
    assert by_issue["result_min_duration_met"]
    assert by_latency["result_min_duration_met"]


def test_property_26_server_rates() -> None:
    result = loadgen_results(ran([1] * 101), limits("Server"))
    assert result["result_scheduled_samples_per_sec"] == 100.0
    assert result["result_completed_samples_per_sec"] == 50.0


def test_property_27_percentile_is_a_truncated_rank() -> None:
    result = loadgen_results(ran(range(100)), limits("SingleStream"))
    assert result["result_99.00_percentile_latency_ns"] == 99
    assert result["result_50.00_percentile_latency_ns"] == 50


def test_property_28_mean_is_truncated() -> None:
    assert loadgen_results(ran([1, 2, 2]), limits("SingleStream"))["result_mean_latency_ns"] == 1


def test_property_29_a_latency_at_the_bound_passes() -> None:
    assert server(459, 0)["result_overlatency_query_count"] == 0
    assert server(459, 0)["result_perf_constraints_met"]
    assert server(662, 1)["result_overlatency_query_count"] == 1
    assert not server(100, 1)["result_perf_constraints_met"]


@pytest.mark.parametrize(("n", "rank"), [(64, 63), (128, 123), (662, 614), (1024, 944), (24576, 22228)])
def test_property_31_single_stream_estimate(n: int, rank: int) -> None:
    result = loadgen_results(ran(range(n)), limits("SingleStream"))
    assert result["early_stopping_met"]
    assert result["early_stopping_latency_ss"] == rank


def test_property_31_single_stream_needs_64() -> None:
    result = loadgen_results(ran(range(63)), limits("SingleStream"))
    assert result["result_validity"] == "INVALID"
    assert result["early_stopping_result"]["queries_needed"] == 64


@pytest.mark.parametrize(("n", "estimate"), [(661, 0), (662, 661), (1024, 1021)])
def test_property_32_single_stream_estimates_multi_stream(n: int, estimate: int) -> None:
    result = loadgen_results(ran(range(n)), limits("SingleStream"))
    assert result["result_validity"] == "VALID"
    assert result["early_stopping_latency_ms"] == estimate


@pytest.mark.parametrize(("n", "verdict"), [(661, "INVALID"), (662, "VALID")])
def test_property_33_multi_stream_needs_662(n: int, verdict: str) -> None:
    run = ran(range(n), query_latencies_ns=np.arange(n, dtype=np.int64) + 5)
    result = loadgen_results(run, limits("MultiStream"))
    assert result["result_validity"] == verdict
    assert result["early_stopping_latency_ms"] == (n + 4 if verdict == "VALID" else 0)


@pytest.mark.parametrize(("over", "enough"), [(0, 459), (1, 662), (10, 2010)])
def test_property_34_server_early_stopping(over: int, enough: int) -> None:
    assert server(enough, over)["result_validity"] == "VALID"
    short = server(enough - 1, over)
    assert short["result_validity"] == "INVALID"
    assert short["early_stopping_result"]["more_needed"] == 1


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({"min_duration_ns": 1001 * MS}, "result_min_duration_met"),
        ({"min_query_count": 460}, "result_min_queries_met"),
        ({"min_sample_count": 460}, "result_min_queries_met"),
        ({"target_latency_ns": 100 * MS - 1}, "result_perf_constraints_met"),
        ({"fraction": 0.999}, "early_stopping_met"),
    ],
)
def test_property_35_valid_is_the_conjunction_of_four(changes: dict[str, Any], failing: str) -> None:
    assert server(459, 0)["result_validity"] == "VALID"
    result = server(459, 0, **changes)
    assert result["result_validity"] == "INVALID"
    assert not result[failing]


def test_property_36_offline_has_no_early_stopping() -> None:
    result = loadgen_results(ran([7], queries_issued=1), limits("Offline"))
    assert result["early_stopping_met"]
    assert result["result_validity"] == "VALID"


def test_property_37_time_per_output_token() -> None:
    def tpot(latency: int, ttft: int, tokens: int) -> int:
        one = [np.array([x], dtype=np.int64) for x in (latency, ttft, tokens)]
        return int(loadgen_tpot(one[0], one[1], one[2])[0])

    assert tpot(1_000_000, 200_000, 5) == 200_000
    assert tpot(1_000_000, 199_999, 5) == 200_000
    assert [tpot(1000, 200, n) for n in (1, 0, -3)] == [-800, -800, -800]


def token_server(ttft: int, tokens: int = 11) -> dict[str, Any]:
    n = 459
    run = ran(
        [1000] * n,
        ttft_ns=np.full(n, ttft, dtype=np.int64),
        output_tokens=np.full(n, tokens, dtype=np.int64),
    )
    bounds = {"tokens": True, "target_latency_ns": 1, "ttft_ns": 500, "tpot_ns": 60}
    return loadgen_results(run, limits("Server", **bounds))


def test_property_40_token_server_judges_both_and_not_the_whole() -> None:
    assert token_server(ttft=500)["result_validity"] == "VALID"
    assert token_server(ttft=500)["result_overlatency_query_count"] == 459
    assert token_server(ttft=501)["early_stopping_ttft_result"]["overlatency"] == 459
    slow_tokens = token_server(ttft=390)
    assert slow_tokens["early_stopping_tpot_result"]["overlatency"] == 459
    assert slow_tokens["early_stopping_ttft_result"] is None
    assert "TPOT" in slow_tokens["reasons"]["early_stopping_ttft_result"]


def test_property_41_token_rates() -> None:
    result = token_server(ttft=500)
    assert result["result_completed_tokens_per_second"] == 459 * 11 / 2.0
    assert result["result_token_throughput"] == 459 * 11 / (1000 * 459)
    run = ran([MS, 2 * MS], queries_issued=1, output_tokens=np.array([10, 20], dtype=np.int64))
    offline = loadgen_results(run, limits("Offline", tokens=True))
    assert offline["result_tokens_per_second"] == 30 / 0.002


def test_property_44_what_loadgen_prints_as_nan_is_null_with_a_reason() -> None:
    run = ran([5], final_scheduled_ns=0, final_issued_ns=0, final_done_ns=5)
    result = loadgen_results(run, limits("Server"))
    assert result["result_scheduled_samples_per_sec"] is None
    assert "divides" in result["reasons"]["result_scheduled_samples_per_sec"]


def test_inferred_tokens() -> None:
    offline = loadgen_results(ran([MS, 2 * MS], queries_issued=1), limits("Offline", tokens_per_sample=69.0))
    assert offline["result_inferred_tokens_per_second"] == 69 * 2 / 0.002
    on_time = loadgen_results(ran([1] * 3), limits("Server", tokens_per_sample=69.0))
    assert on_time["result_inferred_completed_tokens_per_second"] == 69.0


def test_nothing_completed_has_no_result() -> None:
    with pytest.raises(ValueError, match="completed"):
        loadgen_results(ran([]), limits("Server"))
