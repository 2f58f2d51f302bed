"""Runs against the simulated server, small enough to be made by the dozen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fairmark.drive.job import RunJob
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.samples.library import load_library
from fairmark.scenario.load import parse_scenario
from fairmark.traffic.plan import run_plan
from fairmark.traffic.settings import traffic_settings
from fairmark.traffic.warmup import warmup_plan
from fairmark_sim import SimHttpSUT

SCENARIO = """
schema = "fairmark/scenario/1"
name = "drive"
benchmark = "drive"
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

    def rows(self, name: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "evidence" / f"{name}.parquet").to_pylist()

    def queries(self, phase: str = "performance") -> list[dict[str, Any]]:
        return [row for row in self.rows("queries") if row["phase"] == phase]


class Bench:
    """Makes jobs for one simulated server and runs them."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.suts: list[Any] = []
        self.closers: list[Callable[[], None]] = []
        self.count = 0
        rows = ({"question": f"What is {n} plus {n}?"} for n in range(64))
        (tmp_path / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def sut(self, **options: Any) -> Any:
        """An open server that runs do not close, so that several can follow one another."""
        sut = SimHttpSUT(SimHttpSUT.Options(**options))
        sut.open()
        self.closers.append(sut.close)
        sut.close = lambda: None  # type: ignore[method-assign]
        self.suts.append(sut)
        return sut

    def job(self, kind: str, sut: Any, *overrides: str, mode: str = "performance", **changes: Any) -> RunJob:
        text = SCENARIO.format(kind=kind).encode()
        scenario = parse_scenario(text, source=str(self.tmp_path / "s.toml"), overrides=overrides)
        library = load_library(scenario.samples, scenario.generation, base=self.tmp_path)
        counted = {"submission": ("accuracy", "performance")}.get(mode, (mode,))
        plans = {name: run_plan(traffic_settings(scenario, name, len(library))) for name in counted}
        if "performance" in plans:
            plans["warmup"] = warmup_plan(scenario, len(library))
        self.count += 1
        given: dict[str, Any] = {
            "scenario": scenario,
            "scenario_source": text,
            "library": library,
            "references": None,
            "mode": mode,
            "plans": plans,
            "sut": sut,
            "sut_facts": {"name": "sim-http", "plugin": {}, "options": {}},
            "out": self.tmp_path / f"run{self.count}",
            "workspace": self.tmp_path,
            "calibration": "none",
        }
        return RunJob(**{**given, **changes})

    def read(self, folder: Path) -> Ran:
        """A run that is already there."""
        return Ran(folder)

    def run(
        self, kind: str, sut: Any, *overrides: str, stop: StopSignal | None = None, **changes: Any
    ) -> Ran:
        job = self.job(kind, sut, *overrides, **changes)
        return Ran(execute(job, progress=lambda _: None, stop=stop or StopSignal()))


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def bench(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("FAIRMARK_CACHE", str(cache))
    made = Bench(tmp_path)
    yield made
    for close in made.closers:
        close()
