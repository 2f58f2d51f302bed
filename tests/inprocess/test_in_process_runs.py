"""Each shape in each scenario, from a plugin file to an audited run; and what breaks the contract."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairmark.audit.audit import audit
from fairmark.drive.stop import StopSignal
from fairmark.errors import SutError
from fairmark.evidence.evidence import load_evidence
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

PLUGIN = Path(__file__).with_name("words_plugin.py")
KINDS = ("Server", "SingleStream", "MultiStream", "Offline", "Concurrency")
SCENARIO = """
schema = "fairmark/scenario/1"
name = "words"
benchmark = "words"
scenario = "{kind}"
[model]
name = "words"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 48
[generation]
max_output_tokens = 16
[warmup]
queries = 4
steady = false
[run]
min_query_count = 24
samples_per_query = 4
query_timeout_s = {patience}
drain_timeout_s = {patience}
[settings]
{settings}
"""

Run = Callable[..., tuple[Path, dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(64))
    (tmp_path / "samples.jsonl").write_text("\n".join(rows) + "\n")

    def make(name: str, kind: str, patience: float = 5) -> tuple[Path, dict[str, Any]]:
        settings = "concurrency = 4" if kind == "Concurrency" else "target_qps = 200"
        text = SCENARIO.format(kind=kind, patience=patience, settings=settings)
        (tmp_path / "words.toml").write_text(text)
        out = tmp_path / "run"
        record = run_once(
            prepare(str(tmp_path / "words.toml")),
            choose_sut(name, (), [str(PLUGIN)]),
            out=out,
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
        )
        return out, record

    return make


def rule(record: dict[str, Any], name: str) -> str:
    return next(r["outcome"] for r in record["verdict"]["rules"] if r["id"] == name)


ALWAYS = {
    ("sync", "SingleStream"), ("sync", "Server"), ("async", "SingleStream"), ("async", "Concurrency"),
    ("batch", "Offline"), ("batch", "Server"), ("callback", "MultiStream"), ("callback", "Server"),
}  # fmt: skip
"""In every test run; the other pairs are among the long tests."""


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        pytest.param(shape, kind, marks=() if (shape, kind) in ALWAYS else pytest.mark.long)
        for shape in ("sync", "async", "batch", "callback")
        for kind in KINDS
    ],
)
def test_every_shape_in_every_scenario(run: Run, shape: str, kind: str) -> None:
    out, record = run(shape, kind)
    assert record["outcome"]["stop_reason"] == "complete"
    apart = kind == "Server" and shape in ("sync", "batch")
    isolation = "subprocess" if apart else "in_process"
    assert (record["sut"]["shape"], record["sut"]["isolation"]) == (shape, isolation)
    assert record["sut"]["claims"] == ({"engine": "words"} if shape == "sync" else {})
    evidence = load_evidence(out / "evidence")
    assert {worker["isolation"] for worker in evidence.workers} == {isolation}
    rows = evidence.queries.to_pylist()
    assert {row["failure"] for row in rows} == {None}
    assert {row["finish_reason"] for row in rows} == {"stop"}
    assert {row["output_tokens"] for row in rows} == {2}
    assert {row["output_token_source"] for row in rows} == {"ids" if shape == "sync" else "usage"}
    assert all(row["first_token_ns"] is None for row in rows) == (shape == "batch")
    # The answer that a query got is that of its own sample.
    outputs = {row["seq"]: row for row in evidence.outputs.to_pylist()}
    for row in rows:
        output = outputs[row["seq"]]
        answer = output["data"].decode() if shape == "batch" else output["text"].split()[0]
        assert int(answer) == row["sample_index"]
    assert record["metrics"]["performance"]["client"]["contract_violations"] == 0
    assert audit(out).passed


def test_breaches_of_the_contract_are_named_and_make_the_run_invalid(run: Run) -> None:
    out, record = run("wrong", "SingleStream")
    evidence = load_evidence(out / "evidence")
    rows = evidence.queries.to_pylist()
    kinds = ("truncated", "engine_error", "malformed", "malformed", None, None)
    assert [row["failure"] for row in rows] == [kinds[row["sample_index"] % 6] for row in rows]
    details = {row["sample_index"] % 6: row["failure_detail"] for row in rows}
    assert details[1] == "RuntimeError: boiled over"
    assert details[2] == "a str is not an event"
    assert details[3] == "failed with the unknown kind 'gremlins': three of them"
    # The first end stands.
    assert {row["finish_reason"] for row in rows if row["failure"] is None} == {"stop"}
    told = ("no_end", None, "wrong_type", "unknown_failure", "after_end", "ended_twice")
    expected = Counter(told[row["sample_index"] % 6] for row in rows)
    del expected[None]
    (worker,) = evidence.workers
    assert worker["violations"]["by_kind"] == expected
    assert record["metrics"]["performance"]["client"]["contract_violations"] == expected.total()
    assert rule(record, "performance-plugin-contract") == "fail"
    assert record["verdict"]["verdict"] == "INVALID"
    assert audit(out).passed


def test_queries_that_do_not_exist_are_not_completed(run: Run) -> None:
    out, record = run("reporter", "SingleStream")
    evidence = load_evidence(out / "evidence")
    issued = len(evidence.queries)
    assert evidence.workers[0]["violations"]["by_kind"] == {"unknown_seq": 2 * issued}
    assert rule(record, "performance-plugin-contract") == "fail"


def test_a_system_that_never_returns_does_not_keep_the_run_from_being_closed(run: Run) -> None:
    out, record = run("hung", "SingleStream", patience=0.5)
    assert record["outcome"]["stop_reason"] == "sut_failed"
    assert record["outcome"]["detail"] == "the system did not return from a query that had timed out"
    assert [q["failure"] for q in load_evidence(out / "evidence").queries.to_pylist()] == ["timeout"]


def test_a_system_that_does_not_open_is_refused_before_the_run(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SutError, match="open: OSError: no such device"):
        run("shut", "SingleStream")
    assert not (tmp_path / "run" / "run.json").exists()
