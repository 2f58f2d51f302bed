"""The formulas against what the tools themselves printed, from the tools' own logs of requests.

The fixtures come from ``make peers``: real runs of each tool against the simulated server. What our formula
makes of a tool's own stamps must be what the tool printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairmark.evidence.tables import table
from fairmark.measure.arrow import ABSENT
from fairmark.measure.phase import read_phase
from fairmark.measure.terms import read_terms
from fairmark.scenario.load import parse_scenario
from fairmark.study.rosetta.streams import LINES, Streams
from fairmark.study.rosetta.table import TOOLS

DATA = Path(__file__).parent / "data"
LATENCIES = ("ttft", "tpot", "itl", "e2e")
SCENARIO = b"""
schema = "fairmark/scenario/1"
name = "rosetta"
scenario = "Concurrency"
model = { name = "sim" }
samples = { source = "x.jsonl", prompt = "q" }
run = { min_query_count = 100 }
settings = { concurrency = 4 }
"""


def _fixture(tool: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / f"{tool}.json").read_text())
    return document


def _streams(requests: list[dict[str, Any]]) -> Streams:
    """A tool's own log, as if it were fairmark's evidence."""
    stamps = {name: [r[name] for r in requests] for name in ("issued_ns", "sent_ns", "completed_ns")}
    n = len(requests)
    queries = table(
        "queries",
        {
            "seq": list(range(n)),
            "query": list(range(n)),
            "phase": ["performance"] * n,
            "scheduled_ns": stamps["issued_ns"],
            **stamps,
            "input_tokens": [r["input_tokens"] for r in requests],
            "output_tokens": [r["output_tokens"] for r in requests],
        },
    )
    messages = [(row, at, kind) for row, r in enumerate(requests) for kind, at in r["messages"]]
    return Streams(
        phase=read_phase(queries, "performance"),
        terms=read_terms(parse_scenario(SCENARIO, source="scenario.toml").document),
        arrived=np.ones(n, dtype=np.bool_),
        row=np.array([row for row, _, _ in messages], dtype=np.int64),
        arrival=np.array([at for _, at, _ in messages], dtype=np.int64),
        line=np.array([LINES.index(kind) for _, _, kind in messages], dtype=np.int64),
    )


def _ours(tool: str, requests: list[dict[str, Any]]) -> dict[tuple[str, str], float]:
    figures = TOOLS[tool].figures(_streams(requests))
    return {(f.quantity, f.statistic): f.value for f in figures if f.value is not None}


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "endpoints"])
def test_our_formula_makes_of_the_tools_stamps_what_the_tool_printed(tool: str) -> None:
    fixture = _fixture(tool)
    ours = _ours(tool, fixture["requests"])
    assert len(fixture["requests"]) == 100
    compared = 0
    for quantity, points in fixture["printed"].items():
        for statistic, printed in points.items():
            if (quantity, statistic) == ("itl", "p99"):
                continue
            assert (quantity, statistic) in ours, f"{tool} prints {quantity} {statistic}"
            # Latencies are exact but for the fixture's whole nanoseconds. Rates are over the tool's own wall
            # time, which begins a little before its first request.
            exact = quantity in LATENCIES or quantity == "completed"
            tolerance = 1e-6 if exact else 0.05
            assert ours[quantity, statistic] == pytest.approx(printed, rel=tolerance), (quantity, statistic)
            compared += 1
    assert compared >= 12


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "endpoints"])
def test_what_rosetta_says_of_our_run_is_near_what_the_tool_printed_of_its_own(tool: str) -> None:
    """Two clients, two runs, one server of known times: medians agree to a tenth, where definitions do."""
    fixture = _fixture(tool)
    for quantity in ("tpot", "e2e"):
        printed, said = fixture["printed"][quantity]["p50"], fixture["rosetta"][quantity]["p50"]
        assert said == pytest.approx(printed, rel=0.1), quantity


def test_the_definitions_are_as_far_apart_as_the_server_says() -> None:
    """TTFT is 30 ms, TPOT 5 ms; vLLM times the role message, and guidellm's TPOT holds the TTFT."""
    vllm, guidellm, endpoints = (_fixture(tool)["printed"] for tool in ("vllm", "guidellm", "endpoints"))
    assert vllm["ttft"]["p50"] < 15 < 30 <= endpoints["ttft"]["p50"]
    assert vllm["tpot"]["p50"] > 6.5
    assert guidellm["tpot"]["p50"] > 6.5
    assert endpoints["tpot"]["p50"] == pytest.approx(5, rel=0.1)


def test_absent_counts_stay_absent() -> None:
    requests = [r | {"output_tokens": None} for r in _fixture("vllm")["requests"]]
    streams = _streams(requests)
    assert (streams.phase.output_tokens == ABSENT).all()
    undefined = {f.quantity: f.undefined for f in TOOLS["vllm"].figures(streams) if f.value is None}
    assert set(undefined) == {"tpot", "output tokens", "total tokens"}
    assert all(reason and "tokenizer" in reason for reason in undefined.values())
