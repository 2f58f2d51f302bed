"""A run with repetitions from the command line, on both clocks, and everything done with it afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

Fairmark = Callable[..., Any]

TWICE = ("--set", "settings.repetitions=2")
REAL = ("--sut", "sim-http", "-o", "ttft_ms=2", "-o", "tpot_ms=0.2")
VIRTUAL = ("--sut", "sim-llm", "-o", "prefill_ms=1", "-o", "decode_ms=1", "--clock", "virtual")
RULES = '{"id": "simulated", "title": "t", "extends": "fairmark-open-1", "without": ["clock-real"]}'


def test_every_repetition_is_run_judged_audited_and_sealed(fairmark: Fairmark, tmp_path: Path) -> None:
    ran = fairmark("run", "tiny.toml", *REAL, *TWICE, "--out", "two")
    assert ran.code == 0, ran
    assert ran.out.startswith("VALID  all 2 repetitions together (0 VALID, 1 VALID)")
    assert "sd / mean" in ran.out
    assert fairmark("check", "two").code == 0
    assert fairmark("audit", "two").code == 0
    bundle = fairmark("bundle", "two", "--submitter", "acme", "--division", "open", "--json").json()["bundle"]
    assert fairmark("audit", bundle).code == 0
    assert "2 repetitions together" in (tmp_path / bundle / "report.html").read_text()

    shutil.rmtree(tmp_path / "two" / "repetition-1")
    assert "repetition 1 of 2 is missing" in fairmark("audit", "two").out
    checked = fairmark("check", "two", "--json")
    assert checked.code == 1
    assert checked.json()[0]["series"]["reasons"] == ["repetition 1 of 2 is missing"]
    refused = fairmark("bundle", "two", "--submitter", "other", "--division", "open")
    assert refused.code == 2
    assert "repetition 1 of 2 is missing" in refused.err


def test_in_simulated_time_and_one_alone(fairmark: Fairmark, tmp_path: Path) -> None:
    (tmp_path / "simulated").mkdir()
    (tmp_path / "simulated" / "ruleset.json").write_text(RULES)
    rules = ("--ruleset", "simulated")
    ran = fairmark("run", "tiny.toml", *VIRTUAL, *TWICE, *rules, "--out", "two", "--json")
    assert ran.code == 0, ran
    series = ran.json()["series"]
    assert series["verdict"] == "VALID"
    assert len({run["schedule_seed"] for run in series["runs"]}) == 2
    alone = fairmark("run", "tiny.toml", *VIRTUAL, *TWICE, *rules, "--repetition", "1", "--out", "alone")
    assert alone.code == 0, alone
    record, again = (
        json.loads((tmp_path / folder / "run.json").read_text()) for folder in ("two/repetition-1", "alone")
    )
    assert record["plan"] == again["plan"]
