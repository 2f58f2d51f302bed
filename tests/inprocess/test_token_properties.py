"""What LoadGen says of odd token reports, in runs of fairmark's own driver; properties bear their numbers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fairmark.audit.audit import audit
from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import Evidence, load_evidence
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

PLUGIN = Path(__file__).with_name("tokens_plugin.py")
SCENARIO = """
schema = "fairmark/scenario/1"
name = "tokens"
scenario = "{kind}"
[model]
name = "tokens"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 48
[generation]
max_output_tokens = 16
[warmup]
queries = 0
[run]
min_query_count = 24
query_timeout_s = 30
drain_timeout_s = 30
[constraints]
percentile = 90
ttft_ms = 60000
tpot_ms = 60000
[settings]
target_qps = 200
"""


class Ran(NamedTuple):
    record: dict[str, Any]
    evidence: Evidence

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.evidence.queries.to_pylist()

    @property
    def metrics(self) -> dict[str, Any]:
        return self.record["metrics"]["performance"]

    @property
    def violations(self) -> dict[str, int]:
        return self.evidence.workers[0]["violations"]["by_kind"]


Run = Callable[[str, str], Ran]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    questions = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(64))
    (tmp_path / "samples.jsonl").write_text("\n".join(questions) + "\n")

    def make(name: str, kind: str) -> Ran:
        (tmp_path / "tokens.toml").write_text(SCENARIO.format(kind=kind))
        record = run_once(
            prepare(str(tmp_path / "tokens.toml")),
            choose_sut(name, (), [str(PLUGIN)]),
            out=tmp_path / "run",
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
        )
        assert audit(tmp_path / "run").passed
        return Ran(record, load_evidence(tmp_path / "run" / "evidence"))

    return make


def test_property_38_a_missing_first_token_is_undefined_and_never_a_number(run: Run) -> None:
    """LoadGen logs an error for such a sample and goes on with a value that was never set."""
    ran = run("sometimes-whole", "Server")
    missing = {row["seq"] for row in ran.rows if row["sample_index"] % 4 == 0}
    assert 0 < len(missing) < len(ran.rows)
    assert {row["seq"] for row in ran.rows if row["first_token_ns"] is None} == missing
    assert {row["output_tokens"] for row in ran.rows} == {4}
    latency = ran.metrics["latency"]
    for described in (latency["ttft_ns"]["from_schedule"], latency["tpot_ns"]["between_events"]):
        assert described["n"] == len(ran.rows) - len(missing)
    assert ran.metrics["loadgen"]["undefined"].startswith("token latencies need a first token")
    assert ran.record["verdict"]["verdict"] == "INVALID"


def test_property_38_fewer_than_two_tokens_have_no_time_per_token(run: Run) -> None:
    """LoadGen logs an error for each, takes the count as 0, and its time per token is negative."""
    ran = run("short", "Server")
    counts = [row["output_tokens"] for row in ran.rows]
    assert set(counts) == {0, 1, 3}
    described = ran.metrics["latency"]["tpot_ns"]["between_events"]
    assert described["n"] == counts.count(3)
    assert described["min_ns"] >= 0


def test_property_38_a_second_completion_is_one_breach_and_the_first_latency_stays(run: Run) -> None:
    ran = run("twice", "SingleStream")
    again = sum(row["sample_index"] % 3 == 0 for row in ran.rows)
    assert again > 0
    assert ran.violations == {"ended_twice": again}
    assert {(row["finish_reason"], row["output_tokens"], row["failure"]) for row in ran.rows} == {
        ("stop", 2, None)
    }
    # The second one comes 100 ms after the first.
    by_seq = sorted(ran.rows, key=lambda row: row["seq"])
    for row, following in itertools.pairwise(by_seq):
        assert row["completed_ns"] <= following["issued_ns"]
    repeated = [row for row in ran.rows if row["sample_index"] % 3 == 0]
    assert min(row["completed_ns"] - row["issued_ns"] for row in repeated) < 100_000_000
    assert ran.record["verdict"]["verdict"] == "INVALID"


def test_property_39_offline_needs_no_first_token(run: Run) -> None:
    """Its token results are there without any, and its answers hold no first tokens of their own."""
    ran = run("whole", "Offline")
    assert {row["first_token_ns"] for row in ran.rows} == {None}
    assert {row["output_tokens"] for row in ran.rows} == {3}
    loadgen = ran.metrics["loadgen"]
    slowest_s = loadgen["result_max_latency_ns"] / 1e9
    assert loadgen["result_tokens_per_second"] == pytest.approx(3 * len(ran.rows) / slowest_s)
    assert not any(key.startswith("result_first_token") for key in loadgen)
    assert ran.violations == {}
    assert {output["data"] for output in ran.evidence.outputs.to_pylist()} == {b"abc"}


def test_property_39_other_scenarios_do(run: Run) -> None:
    ran = run("whole", "Server")
    assert ran.metrics["loadgen"]["undefined"].startswith("token latencies need a first token")
    assert ran.record["verdict"]["verdict"] == "INVALID"
