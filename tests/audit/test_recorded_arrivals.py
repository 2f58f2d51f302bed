"""Runs whose arrivals were recorded carry the recording, and audits draw the plan from it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.audit.forging import change_rows, forge

from fairmark.audit.audit import audit
from fairmark.bundle.seal import seal
from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once
from fairmark.traffic.recorded import arrivals_sha256, read_arrivals

SCENARIO = """
schema = "fairmark/scenario/1"
name = "recorded"
scenario = "Server"
model = { name = "sim" }
samples = { source = "questions.jsonl", prompt = "question", performance_sample_count = 24 }
generation = { max_output_tokens = 8 }
warmup = { queries = 2, steady = false }
run = { min_query_count = 40 }
arrivals = { process = "trace", trace = "traces/busy.txt", sha256 = "PIN" }
"""
RECORDING = "# seconds\n" + "".join(f"{100 + n * n / 400:.3f}\n" for n in range(64))

ARRIVALS = "evidence/arrivals.txt"


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated Server run that followed a recording in a file."""
    base = tmp_path_factory.mktemp("recorded")
    trace = base / "traces" / "busy.txt"
    trace.parent.mkdir()
    trace.write_text(RECORDING)
    (base / "recorded.toml").write_text(SCENARIO.replace("PIN", arrivals_sha256(read_arrivals(trace))))
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(32))
    (base / "questions.jsonl").write_text("\n".join(rows))
    run_once(
        prepare(str(base / "recorded.toml")),
        choose_sut("sim-llm"),
        out=base / "run",
        ruleset=load_ruleset("fairmark-open-1"),
        stop=StopSignal(),
        progress=lambda _: None,
        clock="virtual",
    )
    shutil.rmtree(trace.parent)
    return base / "run"


@pytest.fixture
def run(recorded_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(recorded_run, tmp_path / "run"))


def errors(folder: Path) -> list[tuple[str, str, str]]:
    return [(f.id, f.file, f.message) for f in audit(folder).findings if f.severity == "error"]


def test_a_run_carries_its_recording_and_so_does_its_bundle(recorded_run: Path, tmp_path: Path) -> None:
    assert (recorded_run / ARRIVALS).read_text() == RECORDING
    report = audit(recorded_run)
    assert report.passed
    assert {finding.id for finding in report.findings} == {"audit.no-wire"}
    host = {"cpu": "any", "logical_cores": 2}
    system = {"schema": "fairmark/system/1", "name": "box", "nodes": 1, "host": host, "software": {}}
    bundle = seal(
        [recorded_run], tmp_path, submitter="acme", division="open", system=system, report_html="<p>"
    )
    assert audit(bundle).passed
    assert len(list(bundle.rglob("arrivals.txt"))) == 1


def test_a_plan_that_the_recording_does_not_give(run: Path) -> None:
    change_rows(run, "plan", lambda rows: rows[-1].update(scheduled_ns=rows[-1]["scheduled_ns"] + 1))
    forge(run)
    assert ("audit.plan", "evidence/plan.parquet") in {found[:2] for found in errors(run)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text(RECORDING.replace("100.010", "100.011")), "the scenario pins"),
        (lambda path: path.write_text("1\n0\n"), "evidence/arrivals.txt:2: goes back in time"),
        (lambda path: path.unlink(), "is missing although the scenario names a recording"),
    ],
)
def test_another_recording(change: Callable[[Path], object], message: str, run: Path) -> None:
    change(run / ARRIVALS)
    forge(run)
    (found,) = errors(run)
    assert found[:2] == ("audit.arrivals", ARRIVALS)
    assert message in found[2]
    assert str(run) not in found[2]


def test_a_recording_that_nobody_asked_for(offline_run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(offline_run, tmp_path / "run"))
    (run / ARRIVALS).write_text(RECORDING)
    forge(run)
    assert errors(run) == [
        ("audit.arrivals", ARRIVALS, "is there, but the scenario names no recording of arrivals")
    ]
