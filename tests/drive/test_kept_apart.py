"""What a run must not do: warm the cache of what it measures, lose its log, trust a damaged file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairmark.drive import prepare as preparing
from fairmark.drive.calibrate import ceilings
from fairmark.drive.stop import StopSignal
from fairmark.errors import SutError
from fairmark.judge.rules import load_ruleset
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation, Samples
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

PLUGIN = """
import fairmark


class Engine(fairmark.SyncSUT):
    def open(self):
        if self.logs is not None and {talk}:
            (self.logs / "engine.log").write_text("no such device")
        raise RuntimeError("does not open")

    def generate(self, sample):
        yield fairmark.Done("stop")


@fairmark.hookimpl
def fairmark_suts():
    return {{"engine": Engine}}
"""

SCENARIO = """
schema = "fairmark/scenario/1"
name = "tiny"
scenario = "SingleStream"
model = { name = "m" }
samples = { source = "q.jsonl", prompt = "question", performance_sample_count = 4 }
run = { min_query_count = 4 }
"""


def fail_to_open(folder: Path, monkeypatch: pytest.MonkeyPatch, *, talk: bool) -> Path:
    """A run in a new folder below a new folder, of a system that does not open."""
    monkeypatch.chdir(folder)
    (folder / "q.jsonl").write_text("".join(json.dumps({"question": f"q{i}"}) + "\n" for i in range(9)))
    (folder / "tiny.toml").write_text(SCENARIO)
    (folder / "engine.py").write_text(PLUGIN.format(talk=talk))
    out = folder / "runs" / "one"
    with pytest.raises(SutError, match="does not open"):
        run_once(
            prepare("tiny.toml"),
            choose_sut("engine", plugins=["engine.py"]),
            out=out,
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
        )
    return out


def test_the_log_of_a_system_that_does_not_open_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = fail_to_open(tmp_path, monkeypatch, talk=True)
    logs = {path.name: path.read_text() for path in (out / "evidence" / "logs").iterdir()}
    assert "no such device" in "".join(logs.values())
    assert all(logs.values())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of all first requests, as they are sent."""
    bodies: list[bytes] = []
    real = preparing.probe

    def noted(endpoint: Any, body: bytes, *given: Any, **more: Any) -> Any:
        bodies.append(body)
        return real(endpoint, body, *given, **more)

    monkeypatch.setattr(preparing, "probe", noted)
    return bodies


def test_a_first_request_is_never_one_that_counts(bench: Any, asked: list[bytes]) -> None:
    warm = bench.run("SingleStream", bench.sut())
    (first,) = asked
    sent = {row["question"] for row in questions(warm, "performance")}
    assert not any(question.encode() in first for question in sent)
    # Where every row is counted there is nothing left to ask but a greeting.
    bench.run("Offline", bench.sut(), "samples.performance_sample_count=64", mode="accuracy")
    assert b"Hello." in asked[1]


EVERY_ROW = ("samples.performance_sample_count=64",)
ANSWER = {"text": "/choices/0/text", "finish_reason": "/choices/0/finish_reason"}


@pytest.mark.parametrize("kind", ["text", "messages", "data"])
def test_a_template_of_data_is_probed_where_every_row_is_counted(
    kind: str, bench: Any, asked: list[bytes]
) -> None:
    template = {
        "schema": "fairmark/http-template/1",
        "path": "/v1/completions",
        "body": {"prompt": "{{data.question}}", "max_tokens": "{{max_tokens}}"},
        "answer": ANSWER,
    }
    sut = bench.sut(api="completions", stream=False)
    sut.dialect, sut.template = "json-template", template
    ran = bench.run("Offline", sut, *EVERY_ROW, f"samples.input='{kind}'", mode="accuracy")
    assert {row["failure"] for row in ran.queries("accuracy")} == {None}
    (first,) = asked
    # Nobody but its owner knows what else a column of data may hold: a counted row is asked, and it is said.
    assert json.loads(first)["prompt"] == ("What is 0 plus 0?" if kind == "data" else "Hello.")
    assert ran.record["sut"]["observed"].get("counted_sample") == (0 if kind == "data" else None)


CHAT = [{"role": "user", "content": "x"}]
HELLO = [{"role": "user", "content": "Hello."}]


@pytest.mark.parametrize(
    ("kind", "row", "prompt", "ids", "expected"),
    [
        ("text", "x", "x", None, ("Hello.", "Hello.", None)),
        ("messages", "x", CHAT, None, ("Hello.", HELLO, None)),
        ("messages", CHAT, CHAT, None, (HELLO, HELLO, None)),
        ("token_ids", [7, 8, 9], None, (7, 8, 9), ([7], None, [7])),
        ("token_ids", [7], None, (7,), ([7, 7], None, [7, 7])),
        ("length", 12, "w w w", None, (1, "Hello.", None)),
        ("length", "12", "w w w", None, ("1", "Hello.", None)),
        ("data", {"x": 1}, None, None, ({"x": 1}, None, None)),
    ],
)
def test_a_greeting_stands_wherever_the_prompt_stood(
    kind: Any, row: Any, prompt: Any, ids: Any, expected: tuple[Any, Any, Any]
) -> None:
    like = Sample(3, {"q": row, "answer": "4"}, prompt, Generation(), token_ids=ids)
    greeting = preparing._greeting(like, Samples(source="q.jsonl", prompt="q", input=kind))
    assert greeting.data["answer"] == "4"
    assert (greeting.data["q"], greeting.prompt, greeting.token_ids) == expected


def questions(ran: Any, phase: str) -> list[dict[str, Any]]:
    rows = {row["index"]: json.loads(row["row"]) for row in ran.rows("samples")}
    return [rows[query["sample_index"]] for query in ran.queries(phase)]


@pytest.mark.parametrize("damage", ["", "{", '"x"', "[{}]", "[1]"])
def test_a_damaged_ceiling_is_measured_anew(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path))
    measured = [{"qps": 1000, "lag_p50_ns": 1, "lag_p99_ns": 2}]
    monkeypatch.setattr("fairmark.drive.calibrate._measure", lambda *_: measured)
    asked = {"workers": 1, "cores": [], "pacer": None}
    assert ceilings("cached", **asked) == measured
    (cached,) = tmp_path.rglob("ceiling-*.json")
    cached.write_text(damage)
    assert ceilings("cached", **asked) == measured
    assert json.loads(cached.read_text()) == measured
