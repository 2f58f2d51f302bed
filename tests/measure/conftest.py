"""Small runs written by hand: evidence tables and the facts that go with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import table
from fairmark.measure.measure import measure
from fairmark.scenario.load import parse_scenario

SCENARIO = """
schema = "fairmark/scenario/1"
name = "table"
scenario = "{kind}"
model = {{ name = "m" }}
samples = {{ source = "x.jsonl", prompt = "q" {samples} }}
run = {{ min_query_count = 1 }}
[constraints]
{constraints}
[settings]
{settings}
{more}
"""


def columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns; what a row leaves out is null."""
    names = {name for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in names}


@pytest.fixture(scope="session")
def facts_of() -> Callable[..., dict[str, Any]]:
    def make(
        kind: str = "Server", constraints: str = "", more: str = "", samples: str = "", settings: str = ""
    ) -> dict[str, Any]:
        if not settings:
            settings = {"Server": "target_qps = 10.0", "Concurrency": "concurrency = 2"}.get(kind, "")
        text = SCENARIO.format(
            kind=kind, constraints=constraints, more=more, samples=samples, settings=settings
        )
        return {"scenario": copy.deepcopy(dict(parse_scenario(text.encode(), source="table.toml").document))}

    return make


@pytest.fixture(scope="session")
def evidence_of() -> Callable[..., Evidence]:
    """Evidence from query rows (times in ns); the plan follows from them unless it is given."""

    def make(
        rows: Sequence[Mapping[str, Any]],
        *,
        events: Sequence[Mapping[str, Any]] = (),
        plan: Sequence[Mapping[str, Any]] | None = None,
        health: Sequence[Mapping[str, Any]] = (),
        telemetry: Sequence[Mapping[str, Any]] = (),
        workers: Sequence[Mapping[str, Any]] = ({"worker": 0},),
    ) -> Evidence:
        defaults = {"phase": "performance", "worker": 0, "repetition": 0, "attempts": 1}
        full = [{**defaults, "seq": i, "query": i, "sample_index": i, **row} for i, row in enumerate(rows)]
        kept = ("phase", "seq", "query", "sample_index", "scheduled_ns")
        planned = [{k: row.get(k) for k in kept} for row in full] if plan is None else plan
        return Evidence(
            queries=table("queries", columns(full)),
            events=table("events", columns(events)),
            outputs=table("outputs", {}),
            samples=table("samples", {}),
            plan=table("plan", columns(planned)),
            health=table("health", columns(health)),
            telemetry=table("telemetry", columns(telemetry)),
            workers=workers,
            environment={},
        )

    return make


@pytest.fixture(scope="session")
def phase_schema() -> Draft202012Validator:
    text = resources.files("fairmark.schemas").joinpath("run.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/phase"})


@pytest.fixture(scope="session")
def measured(phase_schema: Draft202012Validator) -> Callable[..., dict[str, Any]]:
    """Measure one phase, and hold the result against the schema and against strict JSON."""

    def run(evidence: Evidence, facts: Mapping[str, Any], phase: str = "performance") -> dict[str, Any]:
        metrics = measure(evidence, facts)
        json.dumps(metrics, allow_nan=False)
        for each in metrics.values():
            phase_schema.validate(each)
        return metrics[phase]

    return run


@pytest.fixture(scope="session")
def make_phase(
    evidence_of: Callable[..., Evidence],
    facts_of: Callable[..., dict[str, Any]],
    measured: Callable[..., dict[str, Any]],
) -> Callable[..., dict[str, Any]]:
    """Measure query rows of a plain Server scenario."""
    facts = facts_of()
    return lambda rows: measured(evidence_of(rows), facts)


@pytest.fixture(scope="session")
def case() -> Callable[[str], dict[str, Any]]:
    """A case of ``data/metric_cases.json`` by id."""
    text = Path(__file__).with_name("data").joinpath("metric_cases.json").read_text(encoding="utf-8")
    cases = {entry["id"]: entry for entry in json.loads(text)}
    return lambda name: cases[name]
