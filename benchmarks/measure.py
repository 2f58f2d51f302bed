"""Measuring and judging a large run: 10^6 queries with 64 chunks each, in seconds and peak memory.

The evidence is made up, with the stamps of a system at a steady load; the record's facts are those of a
small run on the virtual clock. What is timed is a process that loads the evidence, measures it and judges.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.result import Goal, Result, against_limit
from fairmark.drive.stop import StopSignal
from fairmark.evidence.tables import schema, table, write_table
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import prepare
from fairmark.study.run import choose_sut, run_once

__all__ = ["make_evidence", "run"]

CHUNKS: Final = 64
QUERIES: Final = 1_000_000
QUICK_QUERIES: Final = 100_000

_QPS: Final = 2000.0
_AT_ONCE: Final = 16_384
"""Queries whose events make one row group, about a million rows."""

_SCENARIO: Final = """
schema = "fairmark/scenario/1"
name = "large"
scenario = "Server"
model = { name = "sim" }
samples = { source = "fairmark:gsm8k-test", prompt = "question", performance_sample_count = 1000 }
generation = { max_output_tokens = 64 }
warmup = { queries = 0 }
run = { min_query_count = 20 }
constraints = { ttft_ms = 500, tpot_ms = 50 }
classes.strict = { ttft_ms = 200, tpot_ms = 20 }
settings = { target_qps = 20.0 }
"""

_JUDGE: Final = """
import json, resource, sys, time
from pathlib import Path
start = time.perf_counter()
from fairmark.evidence.evidence import load_evidence
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure
folder = Path(sys.argv[1])
record = json.loads((folder / "run.json").read_text())
record["metrics"] = measure(load_evidence(folder / "evidence"), record)
verdict = judge(record, load_ruleset("fairmark-open-1"))
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": time.perf_counter() - start,
    "samples": record["metrics"]["performance"]["counts"]["completed"],
    "gaps": record["metrics"]["performance"]["latency"]["icl_ns"]["between_events"]["n"],
    "rules": len(verdict["rules"]),
}))
print(Path("/proc/self/status").read_text(), file=sys.stderr)
"""
_PEAK: Final = re.compile(r"VmHWM:\s*(\d+) kB")


def run(quick: bool) -> list[Result]:
    """Seconds and peak memory of measuring and judging, imports included."""
    queries = QUICK_QUERIES if quick else QUERIES
    with tempfile.TemporaryDirectory(prefix="fairmark-measure-") as name:
        folder = make_evidence(Path(name), queries)
        found = [_measured(folder, queries) for _ in range(1 if quick else 3)]
    what = f"measure and judge {queries} queries x {CHUNKS} chunks"
    share = queries / QUERIES
    return [
        against_limit(f"{what}: time", [s for s, _ in found], goal=Goal("≤", 20 * share), unit="s"),
        against_limit(f"{what}: peak memory", [m for _, m in found], goal=Goal("≤", 2.0), unit="GiB"),
    ]


def _measured(folder: Path, queries: int) -> tuple[float, float]:
    """Seconds, and peak resident memory in GiB, of a fresh process."""
    done = subprocess.run(
        [sys.executable, "-c", _JUDGE, str(folder)], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    if (found["samples"], found["gaps"]) != (queries, queries * (CHUNKS - 1)) or not found["rules"]:
        raise RuntimeError(f"not all of the evidence was measured: {found}")
    peak = _PEAK.search(done.stderr)
    if peak is None:
        raise RuntimeError("the system does not tell the peak memory of a process")
    return found["seconds"], int(peak[1]) / 2**20


def make_evidence(base: Path, queries: int) -> Path:
    """A run folder whose ``queries`` and ``events`` tables hold a large run."""
    (base / "large.toml").write_text(_SCENARIO)
    out = base / "run"
    run_once(
        prepare(str(base / "large.toml")),
        choose_sut("sim-llm"),
        out=out,
        ruleset=load_ruleset("fairmark-open-1"),
        stop=StopSignal(),
        progress=lambda _: None,
        clock="virtual",
    )
    random = np.random.default_rng(1)
    scheduled = np.cumsum(random.exponential(1e9 / _QPS, queries)).astype(np.int64)
    stamps = [np.empty(0, np.int64)] * 3
    with pq.ParquetWriter(out / "evidence" / "events.parquet", schema("events"), compression="zstd") as file:
        for first in range(0, queries, _AT_ONCE):
            events, mine = _events(scheduled[first : first + _AT_ONCE], first, random)
            file.write_table(events)
            stamps = [np.concatenate([old, new]) for old, new in zip(stamps, mine, strict=True)]
    write_table(_queries(scheduled, stamps), out / "evidence" / "queries.parquet")
    plan = {
        "phase": np.full(queries, "performance", dtype=object),
        **{name: np.arange(queries) for name in ("seq", "query")},
        "sample_index": np.arange(queries) % 1000,
        "scheduled_ns": scheduled,
    }
    write_table(table("plan", plan), out / "evidence" / "plan.parquet")
    return out


def _events(
    scheduled: np.ndarray, first_seq: int, random: np.random.Generator
) -> tuple[pa.Table, list[np.ndarray]]:
    """The events of some queries, and their first, last and completion stamps."""
    count = len(scheduled)
    gaps = (20e6 * random.lognormal(0.0, 0.2, (count, CHUNKS))).astype(np.int64)
    gaps[:, 0] = (100e6 * random.lognormal(0.0, 0.4, count)).astype(np.int64)
    arrival = scheduled[:, None] + np.cumsum(gaps, axis=1)
    kinds = pa.DictionaryArray.from_arrays(pa.array(np.zeros(arrival.size, np.int32)), ["content"])
    columns: dict[str, Any] = {
        "seq": np.repeat(np.arange(first_seq, first_seq + count), CHUNKS),
        "arrival_ns": arrival.reshape(-1),
        "read": np.tile(np.arange(CHUNKS, dtype=np.int32), count),
        "kind": kinds,
        "n_tokens": np.ones(arrival.size, np.int32),
    }
    return table("events", columns), [arrival[:, 0], arrival[:, -1], arrival[:, -1] + 1000]


def _queries(scheduled: np.ndarray, stamps: list[np.ndarray]) -> pa.Table:
    count = len(scheduled)

    def same(value: str) -> np.ndarray:
        return np.full(count, value, dtype=object)

    first, last, completed = stamps
    return table(
        "queries",
        {
            **{name: np.arange(count) for name in ("seq", "query")},
            "sample_index": np.arange(count) % 1000,
            "repetition": np.zeros(count, np.int32),
            "phase": same("performance"),
            "worker": np.zeros(count, np.int32),
            "scheduled_ns": scheduled,
            "issued_ns": scheduled + 20_000,
            "sent_ns": scheduled + 30_000,
            "first_byte_ns": first,
            "first_token_ns": first,
            "last_token_ns": last,
            "completed_ns": completed,
            "input_tokens": 50 + np.arange(count) % 1000,
            "input_token_source": same("usage"),
            "output_tokens": np.full(count, CHUNKS),
            "output_token_source": same("usage"),
            "attempts": np.ones(count, np.int32),
            "finish_reason": same("length"),
            "http_status": np.full(count, 200, np.int32),
        },
    )
