"""``--json`` of the commands that read runs and bundles keeps the published schemas."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from fairmark.bundle.manifest import parse_manifest
from fairmark.cli import cli


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)


def answer(command: str, *arguments: object) -> tuple[Any, int]:
    """What ``fairmark COMMAND … --json`` prints, held to its schema, and its exit code."""
    result = call(command, *arguments, "--json")
    assert result.exception is None, result.output
    document = json.loads(result.stdout)
    text = resources.files("fairmark.schemas").joinpath(f"cli-{command}.schema.json").read_text()
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(document)
    return document, result.return_value or 0


@pytest.fixture
def bundle(server_run: Path, tmp_path: Path) -> Path:
    out = tmp_path / "out"
    document, _ = answer("bundle", server_run, "--submitter", "acme", "--division", "open", "--out", out)
    return Path(document["bundle"])


def test_bundle_then_verify_and_audit(bundle: Path) -> None:
    parse_manifest((bundle / "manifest.json").read_bytes())
    assert answer("verify", bundle) == ({"bundle": str(bundle), "findings": []}, 0)
    document, code = answer("audit", bundle)
    assert (document["findings"], code) == ([], 0)
    assert document["recorded"] == document["recomputed"]


def test_a_changed_bundle_exits_1_and_names_the_file(bundle: Path) -> None:
    (bundle / "report.html").write_text("better")
    for command in ("verify", "audit"):
        document, code = answer(command, bundle)
        assert code == 1
        assert [finding["file"] for finding in document["findings"]] == ["report.html"]


def test_check_report_and_plan(server_run: Path, tmp_path: Path) -> None:
    verdicts, code = answer("check", server_run)
    assert [verdict["run"] for verdict in verdicts] == [str(server_run)]
    assert code == (0 if verdicts[0]["verdict"] == "VALID" else 1)
    page = tmp_path / "report.html"
    document, _ = answer("report", server_run, "--html", page)
    assert document["html"] == str(page)
    assert page.read_text().startswith("<!doctype html>")
    plan, _ = answer("plan", "smollm2-gsm8k-server")
    assert len(plan["scheduled_ns"]) == plan["query_count"] == len(plan["sample_index"])
