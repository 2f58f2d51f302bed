"""Settings that no run can follow: each is refused at once, with its field and what would be accepted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fairmark.cli.mlperf import mlperf
from fairmark.cli.plan import plan
from fairmark.errors import InputError

SCENARIO = """
schema = "fairmark/scenario/1"
name = "tiny"
scenario = "Server"
[model]
name = "sim"
[samples]
source = "questions.jsonl"
prompt = "question"
performance_sample_count = 24
[warmup]
queries = 2
[settings]
target_qps = 200
"""


@pytest.fixture
def scenario(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(32))
    (tmp_path / "questions.jsonl").write_text("\n".join(rows) + "\n")
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO)
    return path


def refused(command: Any, arguments: Sequence[str]) -> InputError:
    called = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    assert isinstance(called.exception, InputError), (called.output, called.exception)
    return called.exception


def planned(scenario: Path, *assignments: str) -> InputError:
    return refused(plan, [str(scenario), *(word for a in assignments for word in ("--set", a))])


@pytest.mark.parametrize(
    "assignment",
    [
        "samples.performance_sample_count=0",
        "samples.performance_sample_count=33",
        "samples.accuracy_sample_count=0",
        "samples.accuracy_sample_count=1000000000000000000000000000000",
        "constraints.percentile=100",
        "constraints.percentile=99.9999999999999999",
        "constraints.percentile=0",
        "constraints.percentile=-5",
        "constraints.percentile=nan",
        "constraints.ttft_ms=0",
        "constraints.ttft_ms=1e308",
        "constraints.e2e_ms=-1",
        "run.min_duration_s=-1",
        "run.min_duration_s=nan",
        "run.min_duration_s=inf",
        "run.min_duration_s=1e300",
        "run.max_duration_s=0",
        "run.max_duration_s=1e300",
        "run.max_query_count=99",
        "run.max_outstanding_queries=0",
        "run.min_query_count=0",
        "run.min_query_count=1.5",
        "run.min_query_count=true",
        "run.min_query_count=1000000000000000000000000000000",
        "run.query_timeout_s=0",
        "run.query_timeout_s=1e300",
        "run.drain_timeout_s=nan",
        "run.samples_per_query=0",
        "run.same_index=-1",
        "run.sampling=sorted",
        "warmup.queries=-1",
        "warmup.queries=1000000000000",
        "warmup.max_queries=1",
        "warmup.max_duration_s=0",
        "settings.target_qps=0",
        "settings.target_qps=-3",
        "settings.target_qps=nan",
        "settings.target_qps=inf",
        "settings.target_qps=1e999",
        "settings.target_qps=1e10",
        "settings.target_qps=1e-9",
        "settings.target_qps=fast",
        "settings.workers=0",
        "settings.workers=1000000",
        "settings.min_query_count=1",
        "settings.concurrency=4",
        "arrivals.process=uniform",
        "arrivals.cv=2",
        "arrivals.think_time_s=-1",
    ],
)
def test_the_plan_command_refuses_it_by_its_field(scenario: Path, assignment: str) -> None:
    error = planned(scenario, assignment)
    field = assignment.partition("=")[0]
    assert error.field == field, str(error)
    assert error.source in ("--set", str(scenario))
    assert "got" in str(error)


@pytest.mark.parametrize(
    "assignments",
    [
        ["run.min_duration_s=10", "run.max_duration_s=5"],
        ["warmup.min_duration_s=10", "warmup.max_duration_s=5"],
        ["run.min_query_count=30000000000"],
        ["settings.target_qps=1e9", "run.min_duration_s=600"],
        ["settings.target_qps=1e-6", "run.min_query_count=10000000"],
        ["scenario=MultiStream", "run.samples_per_query=1000000000"],
        ["scenario=Offline", "settings.target_qps=1e9", "run.min_duration_s=600"],
        ["scenario=Concurrency"],
        ["scenario=Batch"],
        ["seeds=mlperf-9"],
        ["seeds={qsl=1.5,sample_index=1,schedule=1}"],
        ["seeds={qsl=1,sample_index=-1,schedule=1}"],
        ["seeds={qsl=1,sample_index=1,schedule=18446744073709551616}"],
        ["seeds={qsl=1,sample_index=1}"],
        ["seeds.qsl=1"],
        ["arrivals.process=gamma", "arrivals.cv=1000"],
        ["arrivals.process=trace"],
        ["arrivals.process=trace", "arrivals.trace=gone.txt"],
    ],
)
def test_settings_that_do_not_go_together(scenario: Path, assignments: list[str]) -> None:
    error = planned(scenario, *assignments)
    assert error.field is not None or error.source is not None
    assert error.accepted, str(error)


def test_the_largest_seed_is_one(scenario: Path) -> None:
    seeds = "seeds={qsl=18446744073709551615,sample_index=0,schedule=0}"
    assert CliRunner().invoke(plan, [str(scenario), "--set", seeds], standalone_mode=False).exception is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"*.Server.target_qps = 10 # ten\n", 1),
        (b"# fine\n*.Server.target_qps = ten\n", 2),
        (b"# fine\n\n*.Server.target_qps: 10\n", 3),
        (b"#no space after the hash\n", 1),
        (b"*.*.min_query_count = 0\n", 1),
        (b"*.*.min_duration = -1\n", 1),
        (b"*.Server.target_qps = nan\n", 1),
        (b"*.Server.target_latency_percentile = 100\n", 1),
        (b"*.*.mode = 9\n", 1),
        (b"\xef\xbb\xbf*.*.mode = 2\n", 1),
        (b"*.Server.target_qps = \xff\n", 1),
        (b"*.Server.target_qps = " + b"9" * 100_000 + b"x\n", 1),
    ],
)
def test_the_conf_command_refuses_it_by_its_line(tmp_path: Path, text: bytes, line: int) -> None:
    path = tmp_path / "user.conf"
    path.write_bytes(text)
    error = refused(mlperf, ["conf", str(path), "--model", "m", "--scenario", "Server"])
    named = f"{error.source}:{error.line}" if error.line else str(error.source)
    assert named == f"{path}:{line}", str(error)


def test_a_conf_that_is_not_there(tmp_path: Path) -> None:
    error = refused(mlperf, ["conf", str(tmp_path / "no.conf"), "--model", "m", "--scenario", "Server"])
    assert "no.conf" in str(error)
