"""``fairmark run --profile``: the warm-up under the engine's profiler, and nothing that could be counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairmark.cli import cli
from fairmark.errors import FairmarkError, InputError

PLUGIN = Path(__file__).with_name("profiled_plugin.py")
SCENARIO = """
schema = "fairmark/scenario/1"
name = "words"
benchmark = "words"
scenario = "SingleStream"
[model]
name = "words"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 8
[generation]
max_output_tokens = 4
[warmup]
queries = 6
steady = false
[settings]
target_qps = 100
"""
Ask = Callable[..., Result]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text("".join(json.dumps({"question": f"{n}?"}) + "\n" for n in range(16)))
    Path("words.toml").write_text(SCENARIO)

    def call(sut: str, *arguments: str) -> Result:
        asked = ["run", "words.toml", "--sut", sut, "-p", str(PLUGIN), "--out", "run", "--profile"]
        return CliRunner().invoke(cli, [*asked, *arguments])

    return call


def test_a_profile_shows_operators_and_counts_nothing(ask: Ask) -> None:
    found = ask("profiled")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("PROFILED  words: 6 queries of the warm-up; nothing is counted")
    assert found.output.count("answer") == 1
    assert "run/profile/engine.json" in found.output
    record = json.loads(Path("run/run.json").read_text())
    assert record["mode"] == "profile"
    assert [phase["phase"] for phase in record["outcome"]["phases"]] == ["warmup"]
    assert not {"metrics", "verdict"} & set(record)


def test_the_page_has_the_operators(ask: Ask) -> None:
    ask("profiled")
    found = CliRunner().invoke(cli, ["report", "run", "--html", "report.html"])
    assert found.exit_code == 0, found.output
    page = Path("report.html").read_text()
    assert "Operators, by their own time" in page
    assert "<td>answer</td><td>host</td>" in page
    assert "NOT JUDGED" in page


def test_no_rule_and_no_bundle_takes_a_profile_for_a_measurement(ask: Ask) -> None:
    ask("profiled")
    handed_in = ["bundle", "run", "--out", "b", "--submitter", "acme", "--division", "open"]
    for command in (["check", "run"], ["audit", "run"], handed_in):
        refused = CliRunner().invoke(cli, command)
        assert isinstance(refused.exception, InputError), refused.output
        assert "run: is a profile run, which is never judged" in str(refused.exception)
    assert not Path("b").exists()


def test_json_names_run_traces_and_operators(ask: Ask) -> None:
    answer = json.loads(ask("profiled", "--json").stdout)
    assert answer == {
        "run": "run",
        "traces": ["run/profile/engine.json"],
        "operators": [
            {"name": "answer", "place": "host", "calls": 6, "self_us": 30.0, "total_us": 30.0},
        ],
    }


REFUSED = {
    ("plain",): (2, "the system plain has no profiler"),
    ("forgetful",): (3, "the profiler of forgetful left no trace"),
    ("profiled", "--mode", "accuracy"): (2, "--profile: is a run of its own, which counts nothing"),
    ("profiled", "--ruleset", "fairmark-closed-1"): (2, "counts nothing (got '--ruleset')"),
    ("profiled", "--repetition", "0"): (2, "counts nothing (got '--repetition')"),
    ("profiled", "--calibrate"): (2, "counts nothing (got '--calibrate')"),
    ("profiled", "--allow-code-execution"): (2, "counts nothing (got '--allow-code-execution')"),
    ("profiled", "--set", "warmup.queries=0"): (2, "a profile is made of the warm-up, and there is none"),
}


@pytest.mark.parametrize("asked", REFUSED, ids=" ".join)
def test_what_cannot_be_profiled_is_said(ask: Ask, asked: tuple[str, ...]) -> None:
    code, said = REFUSED[asked]
    found = ask(*asked)
    assert isinstance(found.exception, FairmarkError), found.output
    assert found.exception.exit_code == code
    assert said in str(found.exception)
    if code == 2:
        assert not Path("run").exists()
