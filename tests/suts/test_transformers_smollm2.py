"""The bundled real model: its answers are those of the pinned references, in batches and one by one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path, transformers: Any) -> Run:
    """Runs a shipped scenario on the bundled weights; gives the answer of ``--json``."""

    def call(scenario: str, *arguments: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "fairmark", "run", scenario, "--sut", "transformers", "--json"]
        # As patient as a busy machine may need; nothing here is about speed.
        patience = ["--set", "run.query_timeout_s=600", "--set", "run.drain_timeout_s=600"]
        done = subprocess.run(
            [*command, *patience, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=800
        )
        assert done.stdout, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    return call


def test_batches_answer_as_the_references_do(run: Run) -> None:
    record = run(
        "smollm2-gsm8k-offline", "--mode", "accuracy", "--set", "samples.accuracy_sample_count=24"
    )["record"]  # fmt: skip
    assert (record["verdict"]["verdict"], record["verdict"]["reasons"]) == ("VALID", [])
    accuracy = record["metrics"]["accuracy"]
    assert accuracy["counts"]["completed"] == 24
    # The references are this library's; padding may decide a near tie otherwise, in an answer or so.
    assert accuracy["accuracy"]["score"] >= 22 / 24
    claims = record["sut"]["claims"]
    assert claims["weights_sha256"] in record["scenario"]["model"]["weights_sha256"]
    assert (claims["precision"], claims["parameters"]) == ("float32", 134_515_008)


def test_one_by_one_every_answer_is_the_reference(run: Run) -> None:
    record = run("smollm2-gsm8k-singlestream", "--set", "run.min_query_count=6")["record"]
    metrics = record["metrics"]["performance"]
    assert metrics["counts"]["completed"] >= 6
    assert metrics["accuracy"]["score"] == 1
    assert metrics["client"]["contract_violations"] == 0


def test_its_profile_shows_where_time_goes(run: Run) -> None:
    answer = run("smollm2-gsm8k-offline", "--profile")
    (trace,) = answer["traces"]
    assert trace.endswith("profile/torch.json.gz")
    # A dense model on a CPU: matrix products come first.
    first = answer["operators"][0]
    assert (first["name"], first["place"]) in {("aten::addmm", "host"), ("aten::mm", "host")}
    assert first["self_us"] > 0.3 * sum(op["self_us"] for op in answer["operators"])
