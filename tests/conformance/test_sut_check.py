"""``fairmark sut check``: exit codes, JSON, and systems that cannot be checked at all."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

PLUGINS = Path(__file__).parent
CLOSED = """
import fairmark
class Shut(fairmark.SyncSUT):
    def open(self):
        raise OSError("no such device")
    def generate(self, sample):
        yield fairmark.Done()
@fairmark.hookimpl
def fairmark_suts():
    return {"shut": Shut}
"""


MUTE = """
import fairmark
class Mute(fairmark.SyncSUT):
    def generate(self, sample):
        yield fairmark.Failed("engine_error", "no voice")
@fairmark.hookimpl
def fairmark_suts():
    return {"mute": Mute}
"""


def check(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairmark", "sut", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(done.stdout)
    schema = json.loads(resources.files("fairmark.schemas").joinpath("cli-sut-check.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(found)
    return found


def test_one_check_of_a_good_plugin_exits_0_and_keeps_the_schema() -> None:
    done = check("good", "-p", PLUGINS / "good_plugin.py", "--only", "described", "--json")
    assert done.returncode == 0, done.stderr
    found = document(done)
    assert [result["id"] for result in found["checks"]] == ["described"]
    assert found["counts"] == {"pass": 1, "fail": 0, "not_applicable": 0, "not_evaluable": 0}
    assert found["options"] == {"step_ms": 1.5}


def test_a_failed_check_exits_1_with_what_to_do() -> None:
    done = check("described", "-p", PLUGINS / "bad_plugins.py", "--only", "described")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("FAIL            described           the claims are tuned;")
    assert "fix: return engine and version from describe()" in done.stdout
    assert done.stdout.endswith("0 pass, 1 fail, 0 not applicable, 0 not evaluable\n")


def test_a_check_that_could_not_be_made_exits_1(tmp_path: Path) -> None:
    plugin = tmp_path / "mute.py"
    plugin.write_text(MUTE)
    done = check("mute", "-p", plugin, "--only", "not-empty")
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("NOT EVALUABLE   not-empty           no query was answered\n")


def test_progress_goes_to_standard_error() -> None:
    done = check("good", "-p", PLUGINS / "good_plugin.py", "--only", "one-token")
    assert done.returncode == 0, done.stderr
    assert "good: a run, short (SingleStream)\n" in done.stderr


@pytest.mark.parametrize("name", ["described", "answers"])
def test_a_system_that_does_not_open_exits_3(name: str, tmp_path: Path) -> None:
    plugin = tmp_path / "shut.py"
    plugin.write_text(CLOSED)
    done = check("shut", "-p", plugin, "--only", name)
    assert done.returncode == 3
    assert "open: OSError: no such device" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["sim-queue", "--only", "nope"],
            "--only: there is no such check (got 'nope'); accepted: light-import,",
        ),
        (["sim-queue", "--patience-s", "0"], "--patience-s: is not a time (got 0.0)"),
        (["nope"], "there is no such plugin (got 'nope')"),
        (["sim-queue", "-o", "servers=0"], "servers must be at least 1"),
    ],
)
def test_wrong_use_exits_2_in_one_line(arguments: list[str], words: str) -> None:
    done = check(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
