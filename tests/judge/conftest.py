"""One run that every shipped rule applies to and passes; tests change single values of its record."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import table
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure
from fairmark.scenario.load import parse_scenario

MS = 1_000_000
QUERIES = {"accuracy": 40, "performance": 2100}

SCENARIO = b"""
schema = "fairmark/scenario/1"
name = "everything"
scenario = "Server"
model = { name = "m" }
samples = { source = "x.jsonl", prompt = "q", reference = "a" }
warmup = { queries = 16 }
run = { min_query_count = 2000, min_duration_s = 10 }
constraints = { percentile = 99, ttft_ms = 20, tpot_ms = 10, e2e_ms = 100 }
accuracy = { scorer = "exact-match", target = 0.9, judged = ["performance", "accuracy"] }
settings = { target_qps = 100 }
classes = { chat = { ttft_ms = 20 } }
"""


def columns(phase: str, first_seq: int, start_ns: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    """Poisson arrivals at 100 queries/s to a system that answers 4 tokens in 40 ms, 10 ms to the first."""
    n = QUERIES[phase]
    at = (start_ns + np.concatenate([[0], np.cumsum(rng.exponential(10 * MS, n - 1))])).astype(np.int64)
    noise = rng.integers(0, MS, n)
    seq = np.arange(first_seq, first_seq + n)
    stamps = {
        "scheduled_ns": at,
        "issued_ns": at + 20_000,
        "sent_ns": at + 30_000,
        "first_byte_ns": at + 9 * MS,
        "first_token_ns": at + 10 * MS + noise,
        "last_token_ns": at + 40 * MS + noise,
        "completed_ns": at + 40 * MS + noise,
    }
    missing: list[Any] = [None] * n
    texts = {"input_token_source": "usage", "output_token_source": "usage", "finish_reason": "length"}
    return {
        **{name: values.tolist() for name, values in stamps.items()},
        "seq": seq.tolist(),
        "query": seq.tolist(),
        "sample_index": (seq % 10).tolist(),
        "phase": [phase] * n,
        "worker": [0] * n,
        "connection_new": (seq % 1000 == 7).tolist(),
        "input_tokens": (50 + 5 * (seq % 10)).tolist(),
        "output_tokens": [4] * n,
        **{name: [value] * n for name, value in texts.items()},
        "failure": missing,
    }


def anchor(at_s: int) -> dict[str, int]:
    """Both clocks of the environment."""
    return {"wall_us": 1_800_000_000_000_000 + at_s * 1_000_000, "monotonic_us": at_s * 1_000_000}


Change = Callable[[dict[str, list[Any]]], None]


def evidence(change: Change | None = None) -> Evidence:
    """The run's evidence; ``change`` may edit the columns of the performance phase first."""
    rng = np.random.default_rng(5)
    accuracy = columns("accuracy", 0, -60_000 * MS, rng)
    performance = columns("performance", QUERIES["accuracy"], 0, rng)
    if change is not None:
        change(performance)
    queries = {name: accuracy[name] + performance[name] for name in accuracy}
    planned = ("phase", "seq", "query", "sample_index", "scheduled_ns")
    rows = [json.dumps({"a": "yes", "q": f"question {i}"}, separators=(",", ":")) for i in range(10)]
    beats = {"worker": [0, 0], "t_ns": [MS, 60_000 * MS], "name": ["busy_fraction"] * 2, "value": [0.1, 0.2]}
    gauge = {"source": ["s"], "t_ns": [1000 * MS], "name": ["requests_running"], "value": [5.0]}
    return Evidence(
        queries=table("queries", queries),
        events=table("events", {}),
        outputs=table("outputs", {"seq": queries["seq"], "text": ["yes"] * len(queries["seq"])}),
        samples=table("samples", {"index": list(range(10)), "row": rows}),
        plan=table("plan", {name: queries[name] for name in planned}),
        health=table("health", beats),
        telemetry=table("telemetry", gauge),
        workers=[{"worker": 0, "ceiling": {"qps": 10_000.0}}],
        environment={"before": {"clock": anchor(0)}, "after": {"clock": anchor(90)}},
    )


@pytest.fixture(scope="session")
def whole_record() -> dict[str, Any]:
    scenario = parse_scenario(SCENARIO, source="everything.toml")
    digest, seeds = "a" * 64, dict(scenario.document["seeds"])
    outcome = [
        {"phase": "warmup", "issued": 32, "completed": 32, "stop_reason": "steady"},
        *(
            {"phase": phase, "issued": n, "completed": n, "stop_reason": "complete"}
            for phase, n in QUERIES.items()
        ),
    ]
    facts = {
        "schema": "fairmark/run/1",
        "run_id": "20261129T163000Z-everything-aaaaaaaa",
        "fairmark": {"version": "0.1.0"},
        "started_utc": "2026-11-29T16:30:00Z",
        "ended_utc": "2026-11-29T16:32:00Z",
        "mode": "submission",
        "clock": "real",
        "scenario": json.loads(json.dumps(scenario.document)),
        "scenario_digest": scenario.digest,
        "overrides": ["settings.target_qps=100"],
        "samples": {
            "source": "x.jsonl",
            "rows": 10,
            "content_sha256": digest,
            "pinned_sha256": digest,
            "files": [],
        },
        "plan": {
            "sha256": digest,
            "seeds": seeds,
            "base_seeds": seeds,
            "repetition": 0,
            "nonce": None,
            "phases": [],
        },
        "requests": {
            "sha256": digest,
            "count": sum(QUERIES.values()),
            "model": "m",
            "stream": True,
            "extra": {"cache_prompt": False, "cache_salt": "s", "return_token_ids": True},
        },
        "sut": {
            "name": "http",
            "plugin": {},
            "shape": "wire",
            "isolation": "network",
            "dialect": "openai-chat",
            "options": {},
            "claims": {},
            "observed": {},
        },
        "outcome": {"stop_reason": "complete", "detail": None, "phases": outcome},
        "attempts": 1,
        "evidence": {},
    }
    return {**facts, "metrics": measure(evidence(), facts)}


@pytest.fixture
def rejudged(whole_record: dict[str, Any]) -> Callable[[Change], dict[str, Any]]:
    """The open verdict on the run after its performance evidence was changed."""

    def again(change: Change) -> dict[str, Any]:
        record = {**whole_record, "metrics": measure(evidence(change), whole_record)}
        return judge(record, load_ruleset("fairmark-open-1"))

    return again


@pytest.fixture
def record(whole_record: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(whole_record)


@pytest.fixture(scope="session")
def run_schema() -> Draft202012Validator:
    text = resources.files("fairmark.schemas").joinpath("run.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))


@pytest.fixture(scope="session")
def put() -> Callable[[dict[str, Any], str, Any], None]:
    """Set the value at a JSON pointer."""

    def change(document: dict[str, Any], pointer: str, value: Any) -> None:
        *path, last = pointer.split("/")[1:]
        for part in path:
            document = document[part]
        document[last] = value

    return change
