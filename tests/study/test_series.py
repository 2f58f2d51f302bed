"""Repetitions on the virtual clock: all are run, and those that fail are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from fairmark.audit.audit import audit
from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import load_ruleset
from fairmark.study.run import choose_sut
from fairmark.study.series import run_series

SCENARIO = """
schema = "fairmark/scenario/1"
name = "series"
scenario = "Server"
model = { name = "sim" }
samples = { source = "questions.jsonl", prompt = "question", performance_sample_count = 24 }
generation = { max_output_tokens = 8 }
warmup = { queries = 2, steady = false }
run = { min_query_count = 64 }
constraints = { percentile = 90, ttft_ms = TTFT }
settings = { target_qps = 20, repetitions = 4 }
"""
RULES = '{"id": "simulated", "title": "t", "extends": "fairmark-open-1", "without": ["clock-real"]}'

Series = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]


@pytest.fixture
def series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Series:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulated").mkdir()
    (tmp_path / "simulated" / "ruleset.json").write_text(RULES)
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(32))
    (tmp_path / "questions.jsonl").write_text("\n".join(rows))

    def run(ttft_ms: float, stop: StopSignal | None = None, **changes: Any) -> Any:
        (tmp_path / "series.toml").write_text(SCENARIO.replace("TTFT", str(ttft_ms)))
        return run_series(
            "series.toml",
            (),
            choose_sut("sim-llm"),
            mode="performance",
            repetitions=4,
            ruleset=load_ruleset("simulated"),
            stop=stop or StopSignal(),
            **{
                "out": tmp_path / "out",
                "narrate": lambda _: nullcontext(lambda _: None),
                "clock": "virtual",
                **changes,
            },
        )

    return run


def test_all_hold_and_their_numbers_differ(series: Series, tmp_path: Path) -> None:
    found, records = series(500)
    assert (found["verdict"], found["reasons"]) == ("VALID", [])
    assert json.loads((tmp_path / "out" / "series.json").read_text()) == found
    assert [record["plan"]["repetition"] for record in records] == [0, 1, 2, 3]
    assert records[0]["plan"]["seeds"] == records[0]["plan"]["base_seeds"]
    assert len({record["plan"]["sha256"] for record in records}) == 4
    (series_id,) = {record["series"] for record in records}
    assert series_id is not None
    assert [record["attempts"] for record in records] == [1, 1, 1, 1]
    assert len(set(found["spread"]["performance"]["rates.qps"]["values"])) == 4

    kept = (tmp_path / "out" / "series.json").read_text()
    found["spread"]["performance"]["rates.qps"]["mean"] += 1.0
    (tmp_path / "out" / "series.json").write_text(json.dumps(found))
    errors = [f for f in audit(tmp_path / "out").findings if f.id == "audit.series"]
    assert ["series.spread.performance.rates.qps.mean" in error.message for error in errors] == [True]
    (tmp_path / "out" / "series.json").write_text(kept)


def test_those_that_miss_a_tight_bound_are_named(series: Series) -> None:
    """The bound lies between the p90 of one repetition and that of another."""
    _, records = series(500)
    reached = [
        r["metrics"]["performance"]["latency"]["ttft_ns"]["from_schedule"]["p90_ns"] / 1e6 for r in records
    ]
    bound = (min(reached) + max(reached)) / 2
    found, _ = series(bound, out=Path("tight"))
    missed = [number for number, ms in enumerate(reached) if ms > bound]
    assert 0 < len(missed) < 4
    assert found["verdict"] == "INVALID"
    assert [run["repetition"] for run in found["runs"] if run["verdict"] == "INVALID"] == missed
    for number in missed:
        assert any(
            reason.startswith(f"repetition {number}: ") and "TTFT" in reason for reason in found["reasons"]
        )


def test_repetitions_of_two_series_are_not_one(series: Series, tmp_path: Path) -> None:
    _, records = series(500)
    _, others = series(500, out=tmp_path / "again")
    assert [record["attempts"] for record in others] == [2, 2, 2, 2]
    shutil.rmtree(tmp_path / "out" / "repetition-1")
    shutil.copytree(tmp_path / "again" / "repetition-1", tmp_path / "out" / "repetition-1")
    said = [f.message for f in audit(tmp_path / "out").findings if f.severity == "error"]
    assert said == ["its folder holds the repetitions of 2 runs, not of one"]
    forged = {**others[1], "series": records[0]["series"]}
    (tmp_path / "out" / "repetition-1" / "run.json").write_text(json.dumps(forged))
    assert "audit.facts" in {f.id for f in audit(tmp_path / "out").findings}


def test_a_stopped_series_is_not_valid(series: Series, tmp_path: Path) -> None:
    stop = StopSignal()

    def narrate(number: int) -> Any:
        if number == 1:
            stop.request("interrupted")
        return nullcontext(lambda _: None)

    found, records = series(500, stop=stop, narrate=narrate)
    assert len(records) == 2
    assert found["verdict"] == "INVALID"
    assert found["reasons"][:2] == ["repetition 2 of 4 is missing", "repetition 3 of 4 is missing"]
    assert (tmp_path / "out" / "series.json").exists()
