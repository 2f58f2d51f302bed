"""Finished, judged runs of the simulated server, made once for all tests that only read runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fairmark.drive.job import RunJob
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.json_file import write_json
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure
from fairmark.samples.library import load_library
from fairmark.scenario.load import parse_scenario
from fairmark.traffic.plan import run_plan
from fairmark.traffic.settings import traffic_settings
from fairmark.traffic.warmup import warmup_plan
from fairmark_sim import SimHttpSUT

MakeRun = Callable[..., Path]

_SCENARIO = """
schema = "fairmark/scenario/1"
name = "sums-{lower}"
benchmark = "sums"
scenario = "{kind}"

[model]
name = "sim"

[samples]
source = "sums.jsonl"
prompt = "question"
performance_sample_count = 100

[generation]
max_output_tokens = 16

[warmup]
queries = {warmup}
steady = {steady}

[run]
min_query_count = {queries}
query_timeout_s = 10
drain_timeout_s = 10

[constraints]
percentile = 90
ttft_ms = 60
tpot_ms = 8


[settings]
{load}
workers = {workers}
"""


def _text(kind: str, queries: int, workers: int, *, steady: bool) -> bytes:
    return _SCENARIO.format(
        kind=kind,
        lower=kind.lower(),
        queries=queries,
        workers=workers,
        load="concurrency = 4" if kind == "Concurrency" else "target_qps = 150",
        warmup=32 if steady else 8,
        steady=str(steady).lower(),
    ).encode()


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeRun]:
    """``make_run(kind, queries=…, mode=…, ruleset=…, workers=…, steady=…, **sim options)``: a judged run."""
    base = tmp_path_factory.mktemp("runs")
    suts: list[SimHttpSUT] = []
    questions = [f"What is {n} plus {n}? " + "Think it over. " * (n % 7) for n in range(120)]
    rows = (json.dumps({"question": question}) + "\n" for question in questions)
    (base / "sums.jsonl").write_text("".join(rows))

    def make(
        kind: str,
        *,
        queries: int = 64,
        mode: str = "performance",
        ruleset: str = "fairmark-open-1",
        workers: int = 1,
        steady: bool = False,
        **options: Any,
    ) -> Path:
        sut = SimHttpSUT(SimHttpSUT.Options(**options))
        suts.append(sut)
        sut.open()
        out = base / f"run{len(suts)}"
        text = _text(kind, queries, workers, steady=steady)
        execute(_job(text, mode, sut, base, out), progress=lambda _: None, stop=StopSignal())
        sut.close()
        _judge(out, ruleset)
        return out

    yield make
    for sut in suts:
        sut.close()


def _job(text: bytes, mode: str, sut: SimHttpSUT, base: Path, out: Path) -> RunJob:
    scenario = parse_scenario(text, source=str(base / "scenario.toml"))
    library = load_library(scenario.samples, scenario.generation, base=base)
    counted = {"submission": ("accuracy", "performance")}.get(mode, (mode,))
    plans = {name: run_plan(traffic_settings(scenario, name, len(library))) for name in counted}
    if "performance" in plans:
        plans["warmup"] = warmup_plan(scenario, len(library))
    return RunJob(
        scenario=scenario,
        scenario_source=text,
        library=library,
        references=None,
        mode=mode,  # type: ignore[arg-type]
        plans=plans,  # type: ignore[arg-type]
        sut=sut,
        sut_facts={
            "name": "sim-http",
            "plugin": {"module": "fairmark_sim"},
            "options": {"output_tokens": sut.options.output_tokens},
        },
        out=out,
        workspace=base,
        calibration="none",
    )


def _judge(folder: Path, ruleset: str) -> None:
    record = json.loads((folder / "run.json").read_text())
    record["metrics"] = measure(load_evidence(folder / "evidence"), record)
    record["verdict"] = judge(record, load_ruleset(ruleset))
    write_json(folder / "run.json", record)


@pytest.fixture(scope="session")
def server_run(make_run: MakeRun) -> Path:
    """A Server run at 150 queries a second of a server that takes its time."""
    return make_run("Server", ttft_ms=8, ttft_cv=0.4, tpot_ms=0.5, tpot_cv=0.2, servers=4)


@pytest.fixture(scope="session")
def offline_run(make_run: MakeRun) -> Path:
    """An Offline run of the same server."""
    return make_run("Offline", ttft_ms=8, ttft_cv=0.4, tpot_ms=0.5, tpot_cv=0.2, servers=4)
