"""What a virtual run leaves, and how it ends when things go wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from fairmark import Chunk, Done, Event, Failed, InputError, SimSUT, Simulation, SutError, Usage
from fairmark.cli.run import run as run_command
from fairmark.drive.stop import StopSignal
from fairmark.evidence.journal import read_journal
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once
from fairmark.traffic.seeds import derive_seed
from fairmark_sim import SimLlmSUT, SimQueueSUT

MS = 1_000_000
TABLES = ("queries", "events", "reads", "outputs", "plan", "samples", "health", "telemetry")


def queue(**options: Any) -> SimQueueSUT:
    return SimQueueSUT(SimQueueSUT.Options(**options))


def llm(**options: Any) -> SimLlmSUT:
    return SimLlmSUT(SimLlmSUT.Options(**options))


class Scripted(SimSUT):
    """Answers every query by the same script of (ns after its issue, event)."""

    def __init__(self, script: Sequence[tuple[int, Event]]) -> None:
        super().__init__(SimSUT.Options())
        self.script = script
        self.closed = 0

    def simulation(self, seed: int) -> Simulation:
        return _Playing(self.script)

    def close(self) -> None:
        self.closed += 1


class _Playing(Simulation):
    def __init__(self, script: Sequence[tuple[int, Event]]) -> None:
        self.script = script
        self.due: list[tuple[int, int, int]] = []

    def issue(self, now_ns: int, seq: int, sample: Any) -> None:
        self.due += [(now_ns + after_ns, seq, step) for step, (after_ns, _) in enumerate(self.script)]
        self.due.sort()

    def next_ns(self) -> int | None:
        return self.due[0][0] if self.due else None

    def advance(self) -> list[tuple[int, Event]]:
        _, seq, step = self.due.pop(0)
        return [(seq, self.script[step][1])]


@pytest.mark.parametrize("kind", ["Server", "Offline", "SingleStream"])
def test_two_runs_leave_the_same_bytes(bench, kind: str) -> None:
    sut = llm(stall_every=7, fail_rate=0.2, max_batch=4, output_tokens=5)
    runs = [bench.run(kind, sut, "settings.target_qps=100", "run.query_timeout_s=2") for _ in range(2)]
    for name in TABLES:
        files = [(ran.folder / "evidence" / f"{name}.parquet").read_bytes() for ran in runs]
        assert files[0] == files[1], name
    assert runs[0].outcome == runs[1].outcome
    failures = set(runs[0].column("failure"))
    assert {"engine_error", "stalled"} <= failures


def test_a_repetition_has_other_times_and_other_services(bench) -> None:
    sut = queue(service="exponential", service_ms=5.0)
    first, second = (bench.run("SingleStream", sut, repetition=r) for r in (0, 1))
    assert first.sojourn_s.tolist() != second.sojourn_s.tolist()


def test_the_record_says_what_it_is(bench) -> None:
    ran = bench.run("Server", queue(service_ms=5.0), "settings.target_qps=100")
    record = ran.judged()
    schema = json.loads(resources.files("fairmark.schemas").joinpath("run.schema.json").read_text())
    jsonschema.validate(record, schema)
    assert record["clock"] == "virtual"
    assert record["requests"] is None
    sut = record["sut"]
    assert (sut["shape"], sut["isolation"], sut["dialect"]) == ("sim", "in_process", None)
    assert sut["claims"]["test_instrument"] is True
    schedule = int(record["plan"]["base_seeds"]["schedule"])
    assert sut["simulation_seed"] == str(derive_seed("simulation", schedule, 0, None, None))
    workers = json.loads((ran.folder / "evidence" / "workers.json").read_text())
    assert [(w["pacer"], w["isolation"], w["ceiling"]) for w in workers] == [("virtual", "in_process", None)]
    assert "the clock was virtual, not real" in record["verdict"]["reasons"]
    assert ran.table("reads").num_rows == 0
    assert not (ran.folder / "live").exists()
    entries = read_journal(ran.folder / "evidence" / "journal.jsonl")
    assert [entry["event"] for entry in entries] == ["started", "phase", "phase", "driven", "sealed"]


def test_events_become_stamps_counts_and_outputs(bench) -> None:
    script = [
        (1 * MS, Chunk("think", n_tokens=2, kind="reasoning")),
        (3 * MS, Chunk("Hello", n_tokens=1)),
        (3 * MS, Chunk(" you", n_tokens=3)),
        (4 * MS, Done("stop", Usage(7, 6, 2))),
    ]
    ran = bench.run("SingleStream", Scripted(script))
    row = ran.rows()[0]
    stamps = [row[f"{name}_ns"] for name in ("issued", "sent", "first_token", "last_token", "completed")]
    assert stamps == [0, 0, 1 * MS, 3 * MS, 4 * MS]
    assert (row["first_byte_ns"], row["http_status"], row["connection_new"]) == (None, None, None)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (7, 6, 2)
    assert {row["input_token_source"], row["output_token_source"]} == {"usage"}
    assert (row["finish_reason"], row["failure"]) == ("stop", None)
    events = [e for e in ran.table("events").to_pylist() if e["seq"] == row["seq"]]
    assert [(e["kind"], e["n_tokens"], e["read"], e["arrival_ns"] // MS) for e in events] == [
        ("reasoning", 2, 0, 1),
        ("content", 1, 1, 3),
        ("content", 3, 1, 3),
        ("finish", None, 2, 4),
        ("usage", None, 2, 4),
    ]
    output = next(o for o in ran.table("outputs").to_pylist() if o["seq"] == row["seq"])
    assert (output["text"], output["reasoning"]) == ("Hello you", "think")


def test_token_ids_are_kept_and_counted(bench) -> None:
    script = [(MS, Chunk(token_ids=(5, 6))), (2 * MS, Chunk(token_ids=(7,))), (3 * MS, Done())]
    ran = bench.run("SingleStream", Scripted(script))
    row = ran.rows()[0]
    assert (row["output_tokens"], row["output_token_source"]) == (3, "ids")
    assert ran.table("outputs").to_pylist()[0]["token_ids"] == [5, 6, 7]


def test_silence_is_a_timeout_and_an_answer_that_stops_has_stalled(bench) -> None:
    for script, kind in (([], "timeout"), ([(MS, Chunk(n_tokens=1))], "stalled")):
        ran = bench.run("SingleStream", Scripted(script), "run.min_query_count=2")
        assert ran.column("failure").tolist() == [kind, kind]
        assert ran.column("completed_ns").tolist() == [5000 * MS, 10_000 * MS]


def test_an_answer_after_the_timeout_is_nobodys(bench) -> None:
    ran = bench.run("SingleStream", Scripted([(6000 * MS, Done())]), "run.min_query_count=3")
    assert ran.column("failure").tolist() == ["timeout"] * 3
    assert set(ran.column("finish_reason")) == {None}


def test_an_answer_at_the_timeout_itself_counts(bench) -> None:
    ran = bench.run("SingleStream", Scripted([(5000 * MS, Done())]), "run.min_query_count=3")
    assert ran.column("failure").tolist() == [None] * 3


def test_draining_ends_too(bench) -> None:
    ran = bench.run(
        "Server",
        queue(stall_every=1),
        "run.query_timeout_s=50",
        "run.drain_timeout_s=3",
        "warmup.queries=0",
        "settings.target_qps=100",
    )
    last_issue = max(ran.column("issued_ns"))
    assert ran.outcome["stop_reason"] == "drain_timeout"
    assert set(ran.column("failure")) == {"aborted"}
    assert set(ran.column("completed_ns")) == {last_issue + 3000 * MS}


def test_no_phase_follows_one_that_did_not_drain(bench) -> None:
    ran = bench.run(
        "Server", queue(stall_every=1), "run.drain_timeout_s=3", "settings.target_qps=100", mode="submission"
    )
    assert [phase["phase"] for phase in ran.outcome["phases"]] == ["accuracy"]
    assert ran.outcome["phases"][0]["stop_reason"] == "drain_timeout"


def test_the_wish_to_stop_is_heeded(bench) -> None:
    class Stopping(SimQueueSUT):
        """Somebody presses Ctrl-C while the tenth query is sent."""

        presses = 1

        def simulation(self, seed: int) -> Any:
            simulation = super().simulation(seed)
            issue = simulation.issue

            def pressing(now_ns: int, seq: int, sample: Any) -> None:
                issue(now_ns, seq, sample)
                if seq == 9:
                    for _ in range(self.presses):
                        stop.request("interrupted")

            simulation.issue = pressing
            return simulation

    for presses, failure in ((1, None), (2, "aborted")):
        stop = StopSignal()
        sut = Stopping(SimQueueSUT.Options(service_ms=100.0))
        sut.presses = presses
        ran = bench.run("Server", sut, "settings.target_qps=1000", "warmup.queries=0", stop=stop)
        assert len(ran.rows()) == 10
        assert ran.outcome["stop_reason"] == "interrupted"
        assert set(ran.column("failure")) == {failure}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ([(MS, Done()), (MS, Done())], "which is not in flight"),
        ([(MS, Failed("tired"))], "unknown kind 'tired'"),
    ],
)
def test_a_simulation_that_breaks_its_contract_fails_the_run_in_words(
    bench, script: list[tuple[int, Event]], complaint: str
) -> None:
    sut = Scripted(script)
    ran = bench.run("SingleStream", sut)
    assert ran.outcome["stop_reason"] == "sut_failed"
    assert complaint in ran.outcome["detail"]
    assert sut.closed == 1


def test_a_simulation_that_goes_back_in_time_fails_the_run(bench) -> None:
    ran = bench.run("SingleStream", Scripted([(2 * MS, Done()), (-MS, Chunk())]))
    assert ran.outcome["stop_reason"] == "sut_failed"
    assert "back in time" in ran.outcome["detail"]
    assert set(ran.column("failure", "warmup")) == {"aborted"}


def test_a_simulation_that_raises_fails_the_run(bench) -> None:
    class Broken(SimQueueSUT):
        def simulation(self, seed: int) -> Any:
            simulation = super().simulation(seed)
            simulation.next_ns = lambda: 1 // 0
            return simulation

    ran = bench.run("SingleStream", Broken(SimQueueSUT.Options()))
    assert ran.outcome["stop_reason"] == "sut_failed"
    assert ran.outcome["detail"].startswith("the simulation raised ZeroDivisionError")


def test_a_system_that_cannot_be_simulated_leaves_no_run(bench) -> None:
    class Unready(SimQueueSUT):
        def simulation(self, seed: int) -> Any:
            raise RuntimeError("no model")

    with pytest.raises(SutError, match="RuntimeError: no model"):
        bench.run("SingleStream", Unready(SimQueueSUT.Options()))
    assert not (bench.folder / "run1").exists()


def test_a_system_that_fails_to_close_does_not_cost_the_evidence(bench) -> None:
    class Unwilling(SimQueueSUT):
        def close(self) -> None:
            raise RuntimeError("still busy")

    with pytest.raises(RuntimeError, match="still busy"):
        bench.run("SingleStream", Unwilling(SimQueueSUT.Options()))
    record = json.loads((bench.folder / "run1" / "run.json").read_text())
    assert record["outcome"]["stop_reason"] == "complete"
    assert record["evidence"]["queries.parquet"]["bytes"] > 0


def test_more_workers_are_refused_before_anything_is_written(bench) -> None:
    with pytest.raises(InputError, match="one worker"):
        bench.run("Server", queue(), "settings.target_qps=10", "settings.workers=2")
    assert not (bench.folder / "run1").exists()


@pytest.mark.parametrize(
    ("sut", "clock", "hint"),
    [("sim-queue", "real", "--clock virtual"), ("sim-http", "virtual", "--clock real")],
)
def test_a_clock_that_cannot_drive_the_system_is_refused(
    tmp_path: Path, sut: str, clock: Any, hint: str
) -> None:
    prepared = prepare("smollm2-gsm8k-server")
    with pytest.raises(InputError, match=hint):
        run_once(
            prepared,
            choose_sut(sut),
            out=tmp_path / "run",
            ruleset=load_ruleset("fairmark-open-1"),
            stop=StopSignal(),
            progress=lambda _: None,
            clock=clock,
        )
    assert not (tmp_path / "run").exists()


def test_the_command_runs_a_simulated_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["smollm2-gsm8k-server", "--sut", "sim-llm", "--clock", "virtual", "--json"]
    result = CliRunner().invoke(run_command, [*arguments, "-o", "max_batch=8"], standalone_mode=False)
    assert result.exception is None
    record = json.loads(result.stdout)["record"]
    assert (record["clock"], record["verdict"]["verdict"]) == ("virtual", "INVALID")
    assert record["metrics"]["performance"]["counts"]["completed"] == 64
