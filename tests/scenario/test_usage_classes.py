"""The four usage classes: each loads, plans, holds at a low load, and does not hold past the knee.

They run on the virtual clock against an engine with continuous batching, shortened to what shows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import Ruleset, load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

ENGINE = ("prefill_token_us=20", "output_tokens=2000", "max_batch=32")
RULES = '{"id": "simulated", "title": "t", "extends": "fairmark-open-1", "without": ["clock-real"]}'


@pytest.fixture(scope="module")
def ruleset(tmp_path_factory: pytest.TempPathFactory) -> Ruleset:
    """The open rules, for runs in simulated time."""
    folder = tmp_path_factory.mktemp("rules") / "simulated"
    folder.mkdir()
    (folder / "ruleset.json").write_text(RULES)
    return load_ruleset(str(folder))


@pytest.fixture
def judged(tmp_path: Path, ruleset: Ruleset, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def run(name: str, *overrides: str, engine: tuple[str, ...] = ENGINE) -> dict[str, Any]:
        return run_once(
            prepare(name, overrides),
            choose_sut("sim-llm", engine),
            out=tmp_path / f"run{len(list(tmp_path.iterdir()))}",
            ruleset=ruleset,
            stop=StopSignal(),
            progress=lambda _: None,
            clock="virtual",
        )

    return run


def broken(record: dict[str, Any]) -> set[str]:
    """The rules that decided against a run."""
    rules = record["verdict"]["rules"]
    return {r["id"] for r in rules if r["severity"] == "error" and r["outcome"] != "pass"}


def held(record: dict[str, Any]) -> dict[str, bool]:
    """Which service classes hold, all judged from one run."""
    classes = record["metrics"]["performance"]["classes"]
    return {name: found["excess"] <= 0 for name, found in classes.items()}


def test_chat(judged: Any) -> None:
    low = judged("chat", "settings.target_qps=0.3")
    assert low["verdict"]["verdict"] == "VALID", low["verdict"]["reasons"]
    assert held(low) == {"instant": True, "patient": True}
    assert low["metrics"]["performance"]["counts"]["failed"] == 0
    past = judged("chat", "settings.target_qps=40")
    assert past["verdict"]["verdict"] == "INVALID"
    assert {"bound-ttft", "bound-tpot"} & broken(past)
    assert held(past) == {"instant": False, "patient": False}


def test_code_completion(judged: Any) -> None:
    engine = ("prefill_token_us=20", "output_tokens=60", "max_batch=128")
    low = judged("code-completion", "settings.target_qps=1", engine=engine)
    assert low["verdict"]["verdict"] == "VALID", low["verdict"]["reasons"]
    past = judged("code-completion", "settings.target_qps=100", engine=engine)
    assert past["verdict"]["verdict"] == "INVALID"
    assert "bound-tpot" in broken(past)


def test_batch_scoring(judged: Any) -> None:
    low = judged("batch-scoring")
    assert low["verdict"]["verdict"] == "VALID", low["verdict"]["reasons"]
    assert held(low) == {"quick": True}
    past = judged("batch-scoring", "settings.concurrency=512")
    assert past["verdict"]["verdict"] == "INVALID"
    assert "bound-e2e" in broken(past)


def test_offline_generation(judged: Any) -> None:
    """Offline has no load to be past: what it must not do is leave samples out."""
    low = judged("offline-generation")
    assert low["verdict"]["verdict"] == "VALID", low["verdict"]["reasons"]
    assert low["metrics"]["performance"]["counts"]["completed"] >= 2000
    small = judged("offline-generation", engine=(*ENGINE, "kv_tokens=4000"))
    assert small["verdict"]["verdict"] == "INVALID"
    assert "performance-failures" in broken(small)
