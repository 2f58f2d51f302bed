"""Published logs judged by the rules of their rounds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from fairmark.cli.mlperf import mlperf
from fairmark.errors import InputError
from fairmark.judge.rules import load_ruleset
from fairmark.mlperf.folder import judge_folder
from fairmark.mlperf.rounds import Entry, Round, round_of

DATA = Path(__file__).parent / "data"
ROUNDS = ("4.1", "5.0", "5.1", "6.0", "6.1")
INTERACTIVE = "08_v51_llama31-8b_interactive_b200"

# Case: round, benchmark where the folder does not tell, and the error-level rules that it does not pass.
CASES: dict[str, tuple[str, str | None, set[str]]] = {
    "01_v51_deepseek-r1_offline_b200": ("5.1", None, set()),
    "02_v51_deepseek-r1_server_b200": ("5.1", None, set()),
    "03_v51_llama31-405b_server_h200": ("5.1", None, set()),
    "04_v51_llama31-405b_interactive_b200": ("5.1", None, set()),
    "06_v51_llama31-8b_server_l40s_vllm": ("5.1", None, set()),
    "07_v51_llama31-8b_offline_l40s_vllm": ("5.1", None, set()),
    INTERACTIVE: ("5.1", None, set()),
    "09_v51_llama31-8b-edge_singlestream_bmg": ("5.1", None, set()),
    "10_v51_llama31-8b-edge_offline_bmg": ("5.1", None, set()),
    "12_v51_mixtral_server_mi325x": ("5.1", "mixtral-8x7b", set()),
    "14_v51_llama2-70b_interactive_mi325x": ("5.1", None, set()),
    "15_v41_llama2-70b_server_l40s": ("4.1", None, set()),
    "16_v41_llama2-70b_offline_l40s": ("4.1", None, set()),
    # Its LoadGen did not log whether issue was equal, so that cannot be known.
    "18_v41_gptj_server_emr": ("4.1", None, {"equal-issue"}),
    "19_v41_retinanet_multistream_l4": ("4.1", None, set()),
    "21_v51_whisper_offline_vllm": ("5.1", None, set()),
    "34_INVALID_v51_resnet_multistream_test01": (
        "5.1",
        None,
        {"no-errors-logged", "loadgen-valid", "loadgen-min-duration"},
    ),
    "40_QUIRK_v51_dir-multistream_log-singlestream": ("5.1", "resnet50", set()),
    "50_ACC_v51_llama2-70b_server_mi325x": ("5.1", None, set()),
    "60_v60_gpt-oss-120b_server": ("6.0", None, set()),
    "61_v60_gpt-oss-120b_offline": ("6.0", None, set()),
    "63_v60_deepseek-r1_interactive": ("6.0", None, set()),
    "70_INVALID_v60_gpt-oss_server_test07_b70": (
        "6.0",
        "gpt-oss-120b",
        {
            "min-duration-set",
            "equal-issue",
            "loadgen-valid",
            "loadgen-early-stopping",
            "loadgen-performance-constraint",
            "bound-ttft",
            "checker-ttft",
        },
    ),
    "72_INVALID_v60_llama2_interactive_test06": (
        "6.0",
        "llama2-70b-interactive-99",
        {"min-duration-set", "equal-issue", "loadgen-valid", "loadgen-early-stopping"},
    ),
    "80_VALIDwithERRORS_v60_gpt-oss_server_test07": (
        "6.0",
        "gpt-oss-120b",
        {"no-errors-logged", "min-duration-set", "equal-issue"},
    ),
}


def read(folder: Path, round_name: str, benchmark: str | None = None, **more: Any) -> dict[str, Any]:
    return judge_folder(folder, f"mlperf-inference-{round_name}", benchmark=benchmark, **more)


def outcomes(result: Mapping[str, Any], severity: str = "error") -> dict[str, str]:
    rules = result["judgement"]["rules"]
    return {r["id"]: r["outcome"] for r in rules if r["severity"] == severity and r["outcome"] != "pass"}


def changed(tmp_path: Path, case: str, values: Mapping[str, Any]) -> Path:
    """A copy of a case with other values in its detail log."""
    folder = tmp_path / case
    shutil.copytree(DATA / case, folder)
    path = folder / "mlperf_log_detail.txt"
    lines = []
    for line in path.read_text().splitlines():
        entry = json.loads(line.removeprefix(":::MLLOG "))
        if entry["key"] in values:
            line = ":::MLLOG " + json.dumps(entry | {"value": values[entry["key"]]})
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("case", list(CASES))
def test_published_logs_by_the_rules_of_their_round(case: str) -> None:
    name, benchmark, broken = CASES[case]
    result = read(DATA / case, name, benchmark)
    assert set(outcomes(result)) == broken
    assert result["verdict"] == ("INVALID" if broken else "VALID")
    assert all(rule["message"] for rule in result["judgement"]["rules"])
    schema = json.loads(resources.files("fairmark.schemas").joinpath("mlperf-record.schema.json").read_text())
    Draft202012Validator(schema).validate(result["record"])


def test_an_unknown_benchmark_never_passes() -> None:
    result = read(DATA / "32_INVALID_v51_llama31-70b_server_sglang_test06", "5.1")
    assert result["record"]["benchmark"] is None
    found = outcomes(result)
    for rule in ("benchmark-known", "bound-ttft", "checker-tpot", "performance-sample-count", "metric-there"):
        assert found[rule] == "not_evaluable"


def test_another_rounds_seeds_are_refused() -> None:
    result = read(DATA / INTERACTIVE, "6.1")
    assert set(outcomes(result)) == {"seed-qsl", "seed-sample-index", "seed-schedule"}


def test_loadgen_passes_equality_at_a_bound_and_the_checker_does_not(tmp_path: Path) -> None:
    key = "result_first_token_99.00_percentile_latency_ns"
    at_bound = outcomes(read(changed(tmp_path / "a", INTERACTIVE, {key: 500_000_000}), "5.1"))
    assert "checker-ttft" in at_bound
    assert "bound-ttft" not in at_bound
    over = outcomes(read(changed(tmp_path / "b", INTERACTIVE, {key: 500_000_001}), "5.1"))
    assert {"checker-ttft", "bound-ttft"} <= set(over)


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("effective_performance_sample_count", 13_367, "performance-sample-count"),
        ("effective_min_duration_ms", 599_999, "min-duration-set"),
        ("effective_target_latency_percentile", 0.98, "percentile-set"),
        ("effective_sample_concatenate_permutation", False, "equal-issue"),
        ("requested_use_token_latencies", False, "token-latencies-on"),
        ("requested_server_ttft_latency", 500_000_001, "bound-ttft-set"),
        ("requested_server_tpot_latency", 30_000_001, "bound-tpot-set"),
        ("effective_target_latency_ns", 20_000_000_001, "bound-e2e-set"),
        ("effective_qsl_rng_seed", 1780908523862526355, "seed-qsl"),
        ("effective_test_mode", "FindPeakPerformance", "log-mode"),
        ("result_min_queries_met", False, "loadgen-min-queries"),
        ("result_perf_constraints_met", False, "loadgen-performance-constraint"),
        ("result_completed_tokens_per_second", 0, "metric-there"),
        ("result_time_per_output_token_99.00_percentile_ns", 30_000_000, "checker-tpot"),
        ("result_time_per_output_token_99.00_percentile_ns", 30_000_001, "bound-tpot"),
    ],
)
def test_a_rule_for_each_thing_a_submitter_may_change(
    tmp_path: Path, key: str, value: Any, rule: str
) -> None:
    assert outcomes(read(changed(tmp_path, INTERACTIVE, {key: value}), "5.1"))[rule] == "fail"


@pytest.mark.parametrize(
    ("case", "key", "value", "rule"),
    [
        ("07_v51_llama31-8b_offline_l40s_vllm", "effective_samples_per_query", 13_367, "samples-per-query"),
        ("07_v51_llama31-8b_offline_l40s_vllm", "effective_min_query_count", 0, "min-query-count-set"),
        (
            "19_v41_retinanet_multistream_l4",
            "effective_samples_per_query",
            9,
            "samples-per-query-multistream",
        ),
        ("18_v41_gptj_server_emr", "result_99.00_percentile_latency_ns", 20_000_000_001, "bound-e2e"),
        ("50_ACC_v51_llama2-70b_server_mi325x", "qsl_reported_total_count", 24_575, "accuracy-samples"),
    ],
)
def test_a_rule_for_each_other_scenario(tmp_path: Path, case: str, key: str, value: Any, rule: str) -> None:
    assert outcomes(read(changed(tmp_path, case, {key: value}), CASES[case][0]))[rule] == "fail"


def test_the_open_division_chooses_what_the_closed_may_not(tmp_path: Path) -> None:
    folder = changed(tmp_path, INTERACTIVE, {"effective_sample_concatenate_permutation": False})
    assert "equal-issue" in outcomes(read(folder, "5.1"))
    assert "equal-issue" not in outcomes(read(folder, "5.1", division="open"))


def test_the_network_division_wants_a_name() -> None:
    assert "network-name" in outcomes(read(DATA / INTERACTIVE, "5.1", division="network"))


def test_a_scenario_entered_as_another_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "resnet50" / "MultiStream"
    shutil.copytree(DATA / "40_QUIRK_v51_dir-multistream_log-singlestream", folder)
    assert outcomes(read(folder, "5.1"), "warning")["scenario-as-entered"] == "fail"


def test_an_accuracy_run_is_said_to_be_unscored() -> None:
    result = read(DATA / "50_ACC_v51_llama2-70b_server_mi325x", "5.1")
    assert outcomes(result, "warning")["accuracy-scored"] == "not_evaluable"


def the_round(name: str) -> Round:
    return round_of(load_ruleset(f"mlperf-inference-{name}"))


@pytest.mark.parametrize("name", ROUNDS)
def test_the_rules_pin_the_limits(name: str) -> None:
    rules = load_ruleset(f"mlperf-inference-{name}")
    pin = next(rule for rule in rules.rules if rule.id == "limits-of-the-round")
    assert pin.schema == {"const": the_round(name).sha256}


@pytest.mark.parametrize("name", ROUNDS)
def test_every_benchmark_has_limits_in_each_of_its_scenarios(name: str) -> None:
    tables = the_round(name).tables
    for benchmark, table in tables["benchmarks"].items():
        assert table["scenarios"]
        for scenario in table["scenarios"]:
            limits = the_round(name).limits(benchmark, scenario)
            assert "undefined" not in limits
            online = scenario in ("Server", "Interactive")
            assert (limits["ttft_ns"] is None) == (limits["tpot_ns"] is None)
            assert (limits["ttft_ns"] is not None) == (online and limits["token_latencies"])
            assert (limits["samples_per_query"] is not None) == (scenario in ("Offline", "MultiStream"))


def test_choices_where_the_sources_disagree() -> None:
    latest = the_round("6.1")
    assert latest.limits("gpt-oss-120b", "Interactive")["tpot_ns"] == 15_000_000
    assert latest.limits("dlrm-v3", "Server")["target_latency_ns"] == 80_000_000
    assert latest.limits("qwen3-vl-235b-a22b", "Interactive")["target_latency_ns"] == 1_500_000_000
    assert latest.limits("3d-unet", "Offline")["samples_per_query"] == 43
    assert latest.limits("resnet", "Server")["undefined"] == "resnet has no scenario Server in round 6.1"


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        ("results/h200/llama2-70b-99.9/Interactive/performance/run_1", Entry("llama2-70b", "Interactive")),
        ("results/h200/llama3_1-405b/Server/performance/run_1", Entry("llama3.1-405b", "Server")),
        ("results/h200/resnet50/MultiStream/performance", Entry("resnet", "MultiStream")),
        ("results/llama2-70b-box/whisper/Offline", Entry("whisper", "Offline")),
        ("results/whisper_mixtral-8x7b/run_1", Entry(None, None)),
        ("results/h200/llama2/run_1", Entry(None, None)),
    ],
)
def test_folders_name_benchmarks(tmp_path: Path, path: str, entry: Entry) -> None:
    assert the_round("6.0").recognise(tmp_path / path) == entry


def test_a_benchmark_that_is_not_in_the_round() -> None:
    with pytest.raises(InputError, match=r"--benchmark.*gptj"):
        read(DATA / INTERACTIVE, "6.1", "gptj")


def test_rules_without_a_round() -> None:
    with pytest.raises(InputError, match="no limits of a round"):
        judge_folder(DATA / INTERACTIVE, "fairmark-open-1")


def test_rules_of_a_house_keep_the_limits_of_the_round(tmp_path: Path) -> None:
    head = {"id": "house", "title": "Ours", "extends": "mlperf-inference-5.1", "without": ["checker-ttft"]}
    (tmp_path / "ruleset.json").write_text(json.dumps(head))
    result = judge_folder(DATA / INTERACTIVE, str(tmp_path))
    assert result["verdict"] == "VALID"
    assert result["record"]["round"] == "5.1"


def test_the_command_judges_by_a_round() -> None:
    call = [
        "read",
        str(DATA / INTERACTIVE),
        "--ruleset",
        "mlperf-inference-6.1",
        "--benchmark",
        "llama3.1-8b",
    ]
    text = CliRunner().invoke(mlperf, call, standalone_mode=False)
    assert text.return_value == 1
    assert "2.4 seed-qsl: the qsl seed is" in text.output
    whole = CliRunner().invoke(mlperf, [*call, "--json"], standalone_mode=False)
    assert json.loads(whole.output)["judgement"]["ruleset"] == "mlperf-inference-6.1"


def test_the_command_wants_a_round_for_a_benchmark() -> None:
    done = CliRunner().invoke(mlperf, ["read", str(DATA), "--benchmark", "bert"], standalone_mode=False)
    assert isinstance(done.exception, InputError)
