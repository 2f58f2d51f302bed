"""What goes wrong with systems in the driver's process, really done: the log is closed, nothing hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.live import LIVE, open_store
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

pytestmark = pytest.mark.faults

SINGLE = pytest.param("SingleStream", marks=pytest.mark.long)
SERVER = pytest.param("Server", marks=pytest.mark.long)
OFFLINE = pytest.param("Offline", marks=pytest.mark.long)
"""The same fault in a further scenario."""

PLUGIN = Path(__file__).with_name("faulty_plugin.py")
PATIENCE_S = 60.0
SCENARIO = """
schema = "fairmark/scenario/1"
name = "faulty"
benchmark = "faulty"
scenario = "{kind}"
[model]
name = "faulty"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 64
[generation]
max_output_tokens = 16
[warmup]
queries = 0
[run]
min_query_count = {queries}
query_timeout_s = {patience}
drain_timeout_s = {drain}
[settings]
target_qps = 100
"""

Run = Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(64))
    (tmp_path / "samples.jsonl").write_text("\n".join(rows) + "\n")

    def write(kind: str, queries: int, patience: float) -> Path:
        path = tmp_path / "faulty.toml"
        # Longer than any query may take, so that none is still open when the patience with all of them ends.
        text = SCENARIO.format(kind=kind, queries=queries, patience=patience, drain=patience + 5)
        path.write_text(text)
        return path

    return write


@pytest.fixture
def run(scenario: Callable[..., Path], tmp_path: Path) -> Run:
    def make(name: str, kind: str, patience: float = 30) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        record = run_once(
            prepare(str(scenario(kind, 24, patience))),
            choose_sut(name, (), [str(PLUGIN)]),
            out=tmp_path / "run",
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
        )
        return load_evidence(tmp_path / "run" / "evidence").queries.to_pylist(), record

    return make


def breaches(tmp_path: Path) -> dict[str, int]:
    (worker,) = load_evidence(tmp_path / "run" / "evidence").workers
    found: dict[str, int] = worker["violations"]["by_kind"]
    return found


def until(what: str, holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited a minute for: {what}")


class Command:
    """`fairmark run` in a process of its own, against a system that answers in 20 ms."""

    def __init__(self, path: Path, kind: str) -> None:
        self.folder = path.parent / "run"
        words = ["run", str(path), "--sut", "steady", "-p", str(PLUGIN), "--out", str(self.folder)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairmark", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._await_answers()

    def _await_answers(self) -> None:
        live = self.folder / LIVE
        until("the live store", (live / "layout.json").exists)
        completed = open_store(live).columns().stamps.completed
        until("three answers", lambda: sum(1 for t in completed if t) >= 3)

    def worker(self) -> psutil.Process:
        return psutil.Process(int((self.folder / "evidence" / "logs" / "pid").read_text()))

    def end(self) -> int:
        self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return found

    def failures(self) -> Counter[str | None]:
        rows = load_evidence(self.folder / "evidence").queries.to_pylist()
        return Counter(row["failure"] for row in rows)


@pytest.fixture
def command(scenario: Callable[..., Path]) -> Iterator[Callable[[str], Command]]:
    started: list[Command] = []

    def start(kind: str) -> Command:
        started.append(Command(scenario(kind, 5000, 30), kind))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        assert one.process.stderr is not None
        one.process.stderr.close()


@pytest.mark.parametrize("kind", [SINGLE, "Server"])
def test_a_killed_worker_leaves_what_it_had_stamped(command: Any, kind: str) -> None:
    run = command(kind)
    run.worker().kill()
    assert run.end() == 1
    assert run.record["outcome"]["stop_reason"] == "worker_died"
    assert run.record["verdict"]["verdict"] == "INVALID"
    failures = run.failures()
    assert failures[None] >= 3
    assert set(failures) <= {None, "aborted"}


def test_a_killed_issuer_ends_the_run_with_what_was_answered(command: Any) -> None:
    run = command("Server")
    (issuer,) = (c for c in run.worker().children() if "fairmark.drive.inprocess.issuer" in c.cmdline())
    issuer.kill()
    assert run.end() == 1
    assert run.record["outcome"]["stop_reason"] == "worker_died"
    failures = run.failures()
    assert failures[None] >= 3
    assert set(failures) == {None}, "what was issued was drained"


@pytest.mark.parametrize("kind", [SINGLE, "Server"])
def test_a_killed_coordinator_can_be_recovered(command: Any, kind: str) -> None:
    run = command(kind)
    worker = run.worker()
    family = [worker, *worker.children()]
    run.process.kill()
    assert run.end() == -signal.SIGKILL
    until("the worker and its issuer to notice", lambda: not any(p.is_running() for p in family))
    words = [sys.executable, "-m", "fairmark", "recover", str(run.folder)]
    assert subprocess.run(words, stdout=subprocess.DEVNULL, timeout=PATIENCE_S).returncode == 1
    assert run.record["verdict"]["verdict"] == "INVALID"
    assert run.failures()[None] >= 3


@pytest.mark.parametrize("kind", [SINGLE, "Server"])
def test_one_interrupt_drains_and_exits_with_130(command: Any, kind: str) -> None:
    run = command(kind)
    os.kill(run.process.pid, signal.SIGINT)
    assert run.end() == 130
    assert run.record["outcome"]["stop_reason"] == "interrupted"
    failures = run.failures()
    assert set(failures) == {None}
    assert 3 <= failures[None] < 5000


@pytest.mark.parametrize("kind", [SINGLE, "Server", OFFLINE])
def test_a_generator_that_raises_midway_fails_its_query_alone(run: Run, kind: str) -> None:
    rows, record = run("midway", kind)
    assert record["outcome"]["stop_reason"] == "complete"
    assert [row["failure"] for row in rows] == [
        "engine_error" if row["sample_index"] % 2 else None for row in rows
    ]
    assert {row["failure_detail"] for row in rows} == {None, "RuntimeError: out of memory"}
    assert all(row["first_token_ns"] is not None for row in rows)


@pytest.mark.parametrize(("name", "kind"), [("stalled", "Server"), ("waiting", "SingleStream")])
def test_generations_that_stall_are_given_up_and_the_others_go_on(run: Run, name: str, kind: str) -> None:
    rows, record = run(name, kind, patience=2)
    assert record["outcome"]["stop_reason"] == "complete"
    for row in rows:
        assert (row["failure"] == "stalled") == (row["sample_index"] % 8 == 0)
    assert any(row["failure"] for row in rows)


@pytest.mark.parametrize("kind", [SINGLE, "Server"])
def test_a_system_that_blocks_the_event_loop_does_not_keep_the_run(run: Run, kind: str) -> None:
    rows, record = run("blocking", kind, patience=1)
    assert record["outcome"]["stop_reason"] == "sut_failed"
    assert {row["failure"] for row in rows} <= {"stalled", "aborted"}
    assert rows


@pytest.mark.parametrize("kind", ["Offline", SERVER])
def test_a_list_that_is_too_short_truncates_the_rest(run: Run, tmp_path: Path, kind: str) -> None:
    rows, _ = run("short", kind)
    cut = [row for row in rows if row["failure"] == "truncated"]
    assert cut
    assert {row["failure"] for row in rows} <= {None, "truncated"}
    assert breaches(tmp_path) == {"no_end": len(cut)}


@pytest.mark.parametrize("kind", ["Offline", SERVER])
def test_an_answer_too_many_is_a_breach_and_completes_nothing(run: Run, tmp_path: Path, kind: str) -> None:
    rows, record = run("long", kind)
    assert {row["failure"] for row in rows} == {None}
    assert set(breaches(tmp_path)) == {"unknown_seq"}
    (worker,) = load_evidence(tmp_path / "run" / "evidence").workers
    assert worker["violations"]["first"][0]["detail"].startswith("Done beyond the batch of ")
    assert record["verdict"]["verdict"] == "INVALID"


def test_a_thread_that_dies_times_its_queries_out(run: Run) -> None:
    rows, record = run("mortal", "Server", patience=1)
    assert record["outcome"]["stop_reason"] == "complete"
    failures = [row["failure"] for row in rows]
    answered = failures.index("timeout")
    assert failures == [None] * answered + ["timeout"] * (len(rows) - answered)


@pytest.mark.parametrize("kind", [SINGLE, "Server"])
def test_of_two_threads_that_complete_a_query_one_is_taken(run: Run, tmp_path: Path, kind: str) -> None:
    rows, record = run("twice", kind)
    assert {row["failure"] for row in rows} == {None}
    assert breaches(tmp_path) == {"ended_twice": len(rows)}
    assert record["verdict"]["verdict"] == "INVALID"


def test_arrays_complete_each_sample_once_with_its_counts(run: Run, tmp_path: Path) -> None:
    rows, _ = run("arrays", "Offline")
    assert {row["failure"] for row in rows} == {None}
    assert {(row["input_tokens"], row["output_tokens"]) for row in rows} == {(5, 2)}
    assert {row["output_token_source"] for row in rows} == {"usage"}
    assert breaches(tmp_path) == {"ended_twice": 3}
