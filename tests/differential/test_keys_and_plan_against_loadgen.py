"""What LoadGen logs, key by key, and the plan command as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairmark.cli.plan import plan as plan_command
from fairmark.mlperf.folder import read_folder

pytestmark = [pytest.mark.differential, pytest.mark.timeout(0)]

COUNTS = {"Server": 600, "SingleStream": 100, "MultiStream": 100, "Offline": 100}


@pytest.fixture(scope="module", autouse=True)
def fresh_process(loadgen: Any) -> None:
    """LoadGen logs what an earlier test's configuration files left in its process, so it is started again."""
    loadgen.close()


def case(scenario: str, tokens: list[int] | None = None, **more: Any) -> dict[str, Any]:
    values = {
        "min_duration_ms": 0,
        "min_query_count": COUNTS[scenario],
        "server_target_qps": 2000.0,
        "offline_expected_qps": 2000.0,
        "single_stream_expected_latency_ns": 1_000_000,
        "multi_stream_expected_latency_ns": 1_000_000,
        "multi_stream_samples_per_query": 2,
        # So high that a busy machine changes nothing.
        "server_target_latency_ns": 60_000_000_000,
        "ttft_latency": 60_000_000_000,
        "tpot_latency": 60_000_000_000,
        "use_token_latencies": tokens is not None,
    }
    return {
        "scenario": scenario,
        "mode": "PerformanceOnly",
        "total": 50,
        "performance": 40,
        "delays_us": [0],
        "tokens": tokens,
        "settings": values | more,
    }


@pytest.mark.parametrize(
    ("scenario", "tokens", "keys"),
    [("Server", None, 99), ("SingleStream", None, 93), ("Offline", None, 89), ("Server", [5], 124)],
)
def test_property_43_a_valid_log_has_its_keys_and_is_read_whole(
    loadgen: Any, scenario: str, tokens: list[int] | None, keys: int
) -> None:
    run = loadgen.run(case(scenario, tokens))
    lines = (loadgen.folder / "mlperf_log_detail.txt").read_text().splitlines()
    assert run.one("result_validity") == "VALID"
    assert len({json.loads(line.removeprefix(":::MLLOG "))["key"] for line in lines}) == keys
    result = read_folder(loadgen.folder)
    assert result["verdict"] == "VALID"
    assert result["findings"] == []


@pytest.mark.parametrize("tokens", [0, 1, -1])
def test_property_38_each_unusable_token_count_is_one_error_of_its_sample(loadgen: Any, tokens: int) -> None:
    run = loadgen.run(case("Server", [tokens]))
    result = read_folder(loadgen.folder)
    logged = [f for f in result["findings"] if f["id"] == "loadgen-error-logged"]
    assert len(logged) == run.one("result_query_count")
    assert result["verdict"] == "INVALID"


def scenario_file(folder: Path, scenario: str) -> Path:
    rows = "".join(f'{{"question": "q{i}"}}\n' for i in range(50))
    (folder / "questions.jsonl").write_text(rows)
    rate = 1000 if scenario in ("SingleStream", "MultiStream") else 2000
    extra = "samples_per_query = 2" if scenario == "MultiStream" else ""
    path = folder / "case.toml"
    path.write_text(
        f"""
schema = "fairmark/scenario/1"
name = "case"
scenario = "{scenario}"

[model]
name = "sim"

[samples]
source = "questions.jsonl"
prompt = "question"
performance_sample_count = 40

[generation]
max_output_tokens = 8

[warmup]
queries = 2
steady = false

[seeds]
qsl = 11
sample_index = 12
schedule = 13

[run]
min_query_count = {COUNTS[scenario]}
{extra}

[settings]
target_qps = {rate}
"""
    )
    return path


@pytest.mark.parametrize("scenario", list(COUNTS))
def test_the_plan_command_says_what_loadgen_sends(loadgen: Any, tmp_path: Path, scenario: str) -> None:
    path = scenario_file(tmp_path, scenario)
    called = CliRunner().invoke(plan_command, [str(path), "--json"], standalone_mode=False)
    assert called.exception is None, called.exception
    planned = json.loads(called.output)
    seeds = {"qsl_rng_seed": 11, "sample_index_rng_seed": 12, "schedule_rng_seed": 13}
    run = loadgen.run(case(scenario, **seeds))
    assert planned["generated_query_count"] == run.one("generated_query_count")
    assert planned["samples_per_query"] == run.one("generated_samples_per_query")
    assert planned["duration_ns"] == run.one("generated_query_duration")
    issued = [index for query in run.answer["queries"] for index in query]
    assert planned["sample_index"][: len(issued)] == issued
    assert planned["query_count"] == planned["generated_query_count"]  # without a minimum duration
    assert len(issued) >= COUNTS[scenario]
    if scenario == "Server":
        first = run.scheduled_ns - run.scheduled_ns[0]
        assert planned["scheduled_ns"] == first.tolist()
