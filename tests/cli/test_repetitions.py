"""A run with repetitions from the command line, on both clocks, and everything done with it afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Fairmark = Callable[..., Any]

REAL = ("--sut", "sim-http", "-o", "ttft_ms=2", "-o", "tpot_ms=0.2")
VIRTUAL = ("--sut", "sim-llm", "--clock", "virtual", "--ruleset", "simulated")
RULES = '{"id": "simulated", "title": "t", "extends": "fairmark-open-1", "without": ["clock-real"]}'


@pytest.fixture
def rules(tmp_path: Path) -> None:
    (tmp_path / "simulated").mkdir()
    (tmp_path / "simulated" / "ruleset.json").write_text(RULES)


@pytest.mark.parametrize("system", [REAL, VIRTUAL], ids=["real clock", "virtual clock"])
def test_every_repetition_is_run_judged_audited_and_sealed(
    fairmark: Fairmark, tmp_path: Path, rules: None, system: tuple[str, ...]
) -> None:
    ran = fairmark("run", "tiny.toml", *system, "--set", "settings.repetitions=3", "--out", "three")
    assert ran.code == 0, ran
    assert ran.out.startswith("VALID  all 3 repetitions together (0 VALID, 1 VALID, 2 VALID)")
    assert "sd / mean" in ran.out
    series = json.loads((tmp_path / "three" / "series.json").read_text())
    assert len({run["schedule_seed"] for run in series["runs"]}) == 3
    assert len(series["spread"]["performance"]["rates.qps"]["values"]) == 3
    records = [
        json.loads((tmp_path / f"three/repetition-{number}/run.json").read_text()) for number in range(3)
    ]
    assert len({record["scenario_digest"] for record in records}) == 1
    assert len({record["plan"]["sha256"] for record in records}) == 3

    assert (
        fairmark("check", "three", "--ruleset", system[-1] if system is VIRTUAL else "fairmark-open-1").code
        == 0
    )
    if system is REAL:
        sealed = fairmark("bundle", "three", "--submitter", "acme", "--division", "open", "--json")
        bundle = sealed.json()["bundle"]
        assert (fairmark("verify", bundle).code, fairmark("audit", bundle).code) == (0, 0)
        assert "3 repetitions together" in (tmp_path / bundle / "report.html").read_text()
        assert fairmark("audit", "three").code == 0


def test_a_repetition_that_was_left_out_or_changed_shows(
    fairmark: Fairmark, tmp_path: Path, rules: None
) -> None:
    ran = fairmark("run", "tiny.toml", *VIRTUAL, "--set", "settings.repetitions=2", "--out", "two", "--json")
    assert ran.code == 0, ran
    assert ran.json()["series"]["verdict"] == "VALID"

    document = tmp_path / "two" / "series.json"
    series = json.loads(document.read_text())
    series["spread"]["performance"]["rates.qps"]["mean"] += 1.0
    kept = document.read_text()
    document.write_text(json.dumps(series))
    audited = fairmark("audit", "two")
    assert audited.code == 1
    assert "series.spread.performance.rates.qps.mean" in audited.out
    document.write_text(kept)

    shutil.rmtree(tmp_path / "two" / "repetition-1")
    assert "repetition 1 of 2 is missing" in fairmark("audit", "two").out
    checked = fairmark("check", "two", "--ruleset", "simulated", "--json")
    assert checked.code == 1
    assert checked.json()[0]["series"]["reasons"] == ["repetition 1 of 2 is missing"]
    refused = fairmark("bundle", "two", "--submitter", "acme", "--division", "open")
    assert refused.code == 2
    assert "repetition 1 of 2 is missing" in refused.err


def test_one_slow_repetition_is_named(fairmark: Fairmark, rules: None) -> None:
    """Near its bound the system holds it under some arrival times and not under others."""
    tight = ("--set", "constraints.ttft_ms=14.5", "--set", "settings.repetitions=4")
    ran = fairmark("run", "tiny.toml", *VIRTUAL, *tight, "--set", "settings.target_qps=20", "--json")
    series = ran.json()["series"]
    failed = [run["repetition"] for run in series["runs"] if run["verdict"] == "INVALID"]
    assert 0 < len(failed) < 4, series["runs"]
    assert (ran.code, series["verdict"]) == (1, "INVALID")
    for number in failed:
        assert any(reason.startswith(f"repetition {number}: ") for reason in series["reasons"])


def test_one_repetition_can_be_run_alone(fairmark: Fairmark, tmp_path: Path, rules: None) -> None:
    more = ("--set", "settings.repetitions=3", "--repetition", "2", "--out", "alone")
    assert fairmark("run", "tiny.toml", *VIRTUAL, *more).code == 0
    assert json.loads((tmp_path / "alone" / "run.json").read_text())["plan"]["repetition"] == 2
