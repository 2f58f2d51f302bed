"""A run from the command line, and everything one does with it afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Fairmark = Callable[..., Any]

RUN = ("run", "tiny.toml", "--sut", "sim-http", "-o", "ttft_ms=2", "-o", "tpot_ms=0.2")


def test_a_run_is_judged_checked_audited_reported_and_sealed(fairmark: Fairmark, tmp_path: Path) -> None:
    ran = fairmark(*RUN, "--out", "run")
    assert ran.code == 0, ran
    assert ran.out.startswith("VALID")
    assert "sealing the evidence" in ran.err

    checked = fairmark("check", "run", "--json")
    assert checked.code == 0
    assert checked.json()[0]["verdict"] == "VALID"
    assert fairmark("check", "run").out.startswith("VALID")

    audited = fairmark("audit", "run", "--json")
    assert audited.code == 0, audited.out
    assert audited.json()["findings"] == []
    assert "1 run recomputed and equal" in fairmark("audit", "run").out

    reported = fairmark("report", "run", "--html", "report.html")
    assert reported.out.startswith("VALID")
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")

    sealed = fairmark("bundle", "run", "--submitter", "acme", "--division", "open", "--json")
    assert sealed.code == 0, sealed
    bundle = sealed.json()["bundle"]
    assert fairmark("verify", bundle).code == 0
    assert fairmark("audit", bundle).code == 0

    victim = next((tmp_path / bundle).rglob("queries.parquet"))
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    for command in ("verify", "audit"):
        broken = fairmark(command, bundle)
        assert broken.code == 1
        assert "queries.parquet" in broken.out


def test_json_of_a_run_is_the_record(fairmark: Fairmark, tmp_path: Path) -> None:
    answer = fairmark(*RUN, "--out", "run", "--json").json()
    assert answer["run"] == "run"
    assert answer["record"] == json.loads((tmp_path / "run" / "run.json").read_text())


def test_an_invalid_run_exits_1_and_says_why(fairmark: Fairmark) -> None:
    result = fairmark(*RUN, "-o", "faults=truncate@every=8", "--set", "settings.target_qps=100")
    assert result.code == 1
    assert result.out.startswith("INVALID")
    assert "truncated" in result.out


def test_the_same_seeds_send_the_same_samples_at_the_same_times(fairmark: Fairmark) -> None:
    planned = fairmark("plan", "tiny.toml", "--json").json()
    assert planned["query_count"] == 64
    assert planned["samples_per_query"] == 1
    assert len(planned["sample_index"]) == len(planned["scheduled_ns"]) == 64
    assert fairmark("plan", "tiny.toml", "--json").json() == planned
    fresh = fairmark("plan", "tiny.toml", "--repetition", "1", "--json").json()
    assert fresh["scheduled_ns"] != planned["scheduled_ns"]
    assert fresh["scenario_digest"] == planned["scenario_digest"]


def test_lists_are_machine_readable(fairmark: Fairmark) -> None:
    names = {plugin["name"] for plugin in fairmark("sut", "list", "--json").json()}
    assert {"http", "llamacpp", "sim-http"} <= names
    described = fairmark("sut", "describe", "llamacpp", "--json").json()
    assert described["shapes"] == ["wire"]
    assert {"model", "slots"} <= {option["name"] for option in described["options"]}
    assert fairmark("samples", "list", "--json").json()[0]["source"] == "fairmark:gsm8k-test"
    shown = fairmark("samples", "show", "questions.jsonl", "--prompt", "question", "--json").json()
    assert shown["rows"] == 32
    assert shown["first_rows"][0] == {"question": "What is 0 plus 0?"}


def test_the_version_is_shown(fairmark: Fairmark) -> None:
    assert fairmark("--version").out.startswith("fairmark ")
