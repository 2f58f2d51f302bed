"""How a run ended is derived again: what its stamps do not show, a record cannot claim."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.forging import change_rows, edit, forge

from fairmark.audit.audit import audit
from fairmark.audit.outcome import ends_steady
from fairmark.drive.policy import BLOCK, WarmupRule
from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

SETS = """
schema = "fairmark/scenario/1"
name = "sets"
scenario = "SingleStream"
model = {{ name = "sim" }}
samples = {{ source = "questions.jsonl", prompt = "question", performance_sample_count = 24 }}
generation = {{ max_output_tokens = 4 }}
warmup = {{ queries = 0 }}
run = {{ min_query_count = 8, sampling = "{sampling}" }}
settings = {{ target_qps = 10 }}
"""

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def run(server_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(server_run, tmp_path / "run"))


@pytest.fixture(scope="module")
def stream_run(make_run: Callable[..., Path]) -> Path:
    return make_run("SingleStream", queries=40, ttft_ms=2)


def messages(folder: Path) -> list[str]:
    return [f.message for f in audit(folder).findings if f.id == "audit.outcome"]


def performance(change: Change) -> Change:
    return lambda record: change(record["outcome"]["phases"][-1])


LIES: dict[str, tuple[Change, str]] = {
    "a warm-up that was steady": (
        lambda r: r["outcome"]["phases"][0].update(stop_reason="steady"),
        "the warm-up is called steady; the service times of worker 0 never were",
    ),
    "a phase that ended early": (
        performance(lambda p: p.update(ended_ns=p["ended_ns"] - 10**9)),
        "performance ended before its last query",
    ),
    "a phase that started late": (
        performance(lambda p: p.update(started_ns=p["started_ns"] + 10**10)),
        "performance issued a query before it started",
    ),
    "a phase that started before the other ended": (
        performance(lambda p: p.update(started_ns=p["started_ns"] - 10**10)),
        "performance started before the phase before it had ended",
    ),
    "a phase that was stopped": (
        performance(lambda p: p.update(stop_reason="interrupted")),
        "the run is called complete, but performance ended with interrupted",
    ),
    "a phase that is not there": (
        lambda r: r["outcome"]["phases"].pop(0),
        "the run is called complete, but warmup never began",
    ),
}


@pytest.mark.parametrize("name", LIES)
def test_outcomes_that_the_stamps_contradict(name: str, run: Path) -> None:
    change, message = LIES[name]
    edit(run, change)
    forge(run)
    assert f"outcome: {message}" in messages(run)


def _without_the_last(folder: Path, queries: int) -> None:
    """Take the last queries away, and everything that would miss them."""

    def cut(rows: list[dict[str, Any]]) -> None:
        gone = set(sorted(row["seq"] for row in rows)[-queries:])
        rows[:] = [row for row in rows if row["seq"] not in gone]

    change_rows(folder, "queries", cut)
    edit(folder, performance(lambda p: p.update(issued=p["issued"] - queries, completed=p["issued"])))
    forge(folder)


def test_a_run_cut_short_is_not_complete(run: Path, stream_run: Path, tmp_path: Path) -> None:
    _without_the_last(run, 3)
    assert "outcome: performance is called complete with 61 of 64 samples issued" in messages(run)
    closed = Path(shutil.copytree(stream_run, tmp_path / "closed"))
    assert messages(closed) == []
    _without_the_last(closed, 3)
    assert "outcome: performance is called complete with 37 of at least 40 queries" in messages(closed)


@pytest.mark.parametrize("sampling", ["unique", "equal"])
def test_a_closed_loop_is_held_to_the_set_that_its_sampling_promises(sampling: str, tmp_path: Path) -> None:
    """The floor of 8 queries is less than what the sampling asks of a set of 24."""
    (tmp_path / "s.toml").write_text(SETS.format(sampling=sampling))
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(32))
    (tmp_path / "questions.jsonl").write_text("\n".join(rows))
    run = tmp_path / "run"
    run_once(
        prepare(str(tmp_path / "s.toml")),
        choose_sut("sim-llm"),
        out=run,
        ruleset=load_ruleset("fairmark-open-1"),
        stop=StopSignal(),
        progress=lambda _: None,
        clock="virtual",
    )
    (measured,) = json.loads((run / "run.json").read_text())["outcome"]["phases"]
    assert (measured["issued"], measured["stop_reason"]) == (24, "complete")
    assert messages(run) == []
    _without_the_last(run, 3)
    assert "outcome: performance is called complete with 21 of at least 24 queries" in messages(run)


def test_a_query_that_was_given_up_keeps_a_run_from_being_complete(run: Path) -> None:
    change_rows(run, "queries", lambda rows: rows[-1].update(failure="aborted", completed_ns=None))
    forge(run)
    assert messages(run) == [
        "outcome: performance ended, but a query of it never did",
        "outcome: performance is called complete, but 1 of its queries were given up",
    ]


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=80),
    st.integers(1, 60),
    st.integers(0, 10**7),
    st.sampled_from([BLOCK, 8, 1]),
)
def test_the_drivers_rule_and_the_audits_agree(
    service_ns: list[int], units: int, shortest_ns: int, block: int
) -> None:
    rule = WarmupRule(units, shortest_ns, 10**15, steady=True, block=block)
    ended_ns = np.cumsum(service_ns)
    reasons = [rule.end(int(t), s) for t, s in zip(ended_ns, service_ns, strict=True)]
    found = ends_steady(ended_ns, np.array(service_ns), at_least=units, shortest_ns=shortest_ns, block=block)
    assert found == ("steady" in reasons)


def test_a_steady_warm_up_is_believed_with_several_workers(make_run: Callable[..., Path]) -> None:
    # Constant service times are as steady as they can be; the fixture's own scenario does not test for it.
    folder = make_run("Concurrency", queries=40, steady=True, workers=2, ttft_ms=5)
    assert messages(folder) == []
