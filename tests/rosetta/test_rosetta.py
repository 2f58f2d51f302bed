"""What other tools would have printed, on hand-made evidence whose right answers are worked out here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fairmark.bundle.documents import schema_violation
from fairmark.cli import cli
from fairmark.study.rosetta.table import TOOLS

EXAMPLE = Path(__file__).parents[2] / "submissions" / "example"


def _run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["rosetta", *arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder() -> Path:
    return next(EXAMPLE.glob("open/*/*/SingleStream/performance"))


def _values(document: dict[str, Any], tool: str, quantity: str) -> dict[str, float]:
    column = next(t for t in document["tools"] if t["id"] == tool)
    return {f["statistic"]: f["value"] for f in column["figures"] if f["quantity"] == quantity}


def test_every_tool_has_a_column_and_the_document_keeps_its_schema(folder: Path) -> None:
    document = json.loads(_run(str(folder), "--json").output)
    assert [tool["id"] for tool in document["tools"]] == list(TOOLS)
    assert schema_violation(document, "cli-rosetta.schema.json") is None
    for tool in document["tools"]:
        assert tool["figures"]
        assert {f["quantity"] for f in tool["figures"]} >= {"completed", "ttft", "e2e", "requests"}


def test_loadgens_column_is_what_the_record_says_under_its_names(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    document = json.loads(_run(str(folder), "--json", "--tool", "loadgen").output)
    recorded = record["metrics"]["performance"]["loadgen"]
    (column,) = document["tools"]
    compared = [f for f in column["figures"] if f["unit"] == "ms" and f["name"] in recorded]
    assert len(compared) == 18
    for figure in compared:
        assert figure["value"] == recorded[figure["name"]] / 1e6


def test_definitions_order_as_they_must(folder: Path) -> None:
    document = json.loads(_run(str(folder), "--json").output)
    # guidellm's TPOT holds the time to first token, which others leave out.
    assert _values(document, "guidellm", "tpot")["mean"] > _values(document, "vllm", "tpot")["mean"]
    # llmperf's inter-token latency is E2E / tokens; vLLM's gaps include those around role and finish.
    assert _values(document, "llmperf", "itl")["mean"] > _values(document, "sglang", "itl")["mean"]
    # An interpolated percentile lies between the neighbours that the two other rules take.
    low, high = (_values(document, tool, "ttft")["p99"] for tool in ("endpoints", "loadgen"))
    assert low <= _values(document, "vllm", "ttft")["p99"] <= high


def test_text_says_why(folder: Path) -> None:
    text = _run(str(folder), "--tool", "vllm").output
    assert "an empty role message counts as the first token" in text
    assert "guidellm" not in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tool", "nonesuch"), "nonesuch"),
        (("--phase", "accuracy"), "accuracy"),
    ],
)
def test_bad_input(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    from fairmark.errors import InputError

    with pytest.raises(InputError, match=said):
        _run(str(folder), *arguments)


def test_a_bundle_of_several_runs_is_refused() -> None:
    from fairmark.errors import InputError

    with pytest.raises(InputError, match="holds 3 runs"):
        _run(str(EXAMPLE))


def test_weighted_percentile_by_hand() -> None:
    from fairmark.study.rosetta.guidellm import weighted_percentile

    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    # Cumulated: 1 up to 0.25, 2 up to 0.75, 3 up to 1.
    assert [weighted_percentile(values, weights, p) for p in (0.25, 0.26, 0.75, 0.76)] == [1.0, 2.0, 2.0, 3.0]
