"""Runs on the virtual clock, made by the dozen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fairmark.drive.job import RunJob, VirtualJob
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.drive.virtual.run import execute_virtual
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.tables import read_table
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure
from fairmark.samples.library import load_library
from fairmark.scenario.load import parse_scenario
from fairmark.traffic.plan import run_plan
from fairmark.traffic.settings import traffic_settings
from fairmark.traffic.warmup import warmup_plan

SCENARIO = """
schema = "fairmark/scenario/1"
name = "virtual"
benchmark = "virtual"
scenario = "{kind}"
[model]
name = "sim"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 48
[generation]
max_output_tokens = 16
[warmup]
queries = 4
steady = false
[run]
min_query_count = 20
samples_per_query = 4
query_timeout_s = 5
drain_timeout_s = 5
"""


@dataclass(frozen=True)
class Ran:
    """A finished run, read back."""

    folder: Path

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    @property
    def outcome(self) -> dict[str, Any]:
        return self.record["outcome"]

    def table(self, name: str = "queries") -> pa.Table:
        return read_table(name, self.folder / "evidence" / f"{name}.parquet")

    def rows(self, phase: str = "performance") -> list[dict[str, Any]]:
        return [row for row in self.table().to_pylist() if row["phase"] == phase]

    def column(self, name: str, phase: str = "performance") -> np.ndarray:
        return np.array([row[name] for row in self.rows(phase)])

    @property
    def sojourn_s(self) -> np.ndarray:
        """Seconds from schedule to completion, in plan order; from issue where nothing is scheduled."""
        rows = self.rows()
        start = [row["issued_ns"] if row["scheduled_ns"] is None else row["scheduled_ns"] for row in rows]
        return (np.array([row["completed_ns"] for row in rows]) - np.array(start)) / 1e9

    def judged(self) -> dict[str, Any]:
        """The record with its numbers and verdict."""
        record = self.record
        record["metrics"] = measure(load_evidence(self.folder / "evidence"), record)
        record["verdict"] = judge(record, load_ruleset("fairmark-open-1"))
        return record


class Bench:
    """Makes virtual jobs and runs them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        rows = ({"question": f"What is {n} plus {n}?"} for n in range(64))
        (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def job(
        self,
        kind: str,
        sut: Any,
        *overrides: str,
        mode: str = "performance",
        repetition: int = 0,
        job_type: Any = VirtualJob,
        **changes: Any,
    ) -> Any:
        text = SCENARIO.format(kind=kind).encode()
        scenario = parse_scenario(text, source=str(self.folder / "s.toml"), overrides=overrides)
        library = load_library(scenario.samples, scenario.generation, base=self.folder)
        counted = {"submission": ("accuracy", "performance")}.get(mode, (mode,))
        plans = {
            name: run_plan(traffic_settings(scenario, name, len(library), repetition=repetition))
            for name in counted
        }
        if "performance" in plans:
            plans["warmup"] = warmup_plan(scenario, len(library), repetition=repetition)
        self.count += 1
        given: dict[str, Any] = {
            "scenario": scenario,
            "scenario_source": text,
            "library": library,
            "references": None,
            "mode": mode,
            "plans": plans,
            "sut": sut,
            "sut_facts": {"name": "sim", "plugin": {}, "options": {}},
            "out": self.folder / f"run{self.count}",
            "workspace": self.folder,
            "repetition": repetition,
        }
        return job_type(**{**given, **changes})

    def run(
        self, kind: str, sut: Any, *overrides: str, stop: StopSignal | None = None, **changes: Any
    ) -> Ran:
        job = self.job(kind, sut, *overrides, **changes)
        return Ran(execute_virtual(job, progress=lambda _: None, stop=stop or StopSignal()))

    def run_real(self, kind: str, sut: Any, *overrides: str, **changes: Any) -> Ran:
        """The same with the real driver, against a server."""
        sut.open()
        job = self.job(kind, sut, *overrides, job_type=RunJob, calibration="none", **changes)
        return Ran(execute(job, progress=lambda _: None, stop=StopSignal()))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="session")
def make_bench(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bench]:
    """For property tests, whose examples share a function-scoped fixture."""
    return lambda: Bench(tmp_path_factory.mktemp("virtual"))
