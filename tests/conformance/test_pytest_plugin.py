"""``pytest --fairmark-sut``: one test for each check, chosen and reported like any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parent
LOAD = "fairmark.conformance.pytest_plugin"
NAMELESS = """
import fairmark
class Mine(fairmark.SyncSUT):
    def generate(self, sample):
        yield fairmark.Done()
@fairmark.hookimpl
def fairmark_suts():
    return {"mine": Mine}
"""


def run(tmp_path: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """pytest in an empty folder, with the plugin named: the same whether or not it is installed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *map(str, arguments)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)


def test_checks_are_items_that_can_be_chosen(tmp_path: Path) -> None:
    done = run(
        tmp_path, "-v", "--fairmark-sut", "good", "--fairmark-plugin", PLUGINS / "good_plugin.py",
        "--fairmark-option", "step_ms=1", "-k", "described or options",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ("options-documented", "options-readable", "described", "described-alike"):
        assert f"fairmark-good::{check} PASSED" in done.stdout
    assert "4 passed, 33 deselected" in done.stdout


def test_a_failed_check_is_a_failed_test_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NAMELESS)
    chosen = "described or dead-engine"
    done = run(tmp_path, "--fairmark-sut", "mine", "--fairmark-plugin", "mine.py", "-k", chosen)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "described: the claims are empty; engine and version are not among them" in done.stdout
    assert "fix: return engine and version from describe()" in done.stdout
    assert "Traceback" not in done.stdout
    assert "not applicable: it starts no process that could be killed" in done.stdout
    assert "1 failed, 1 passed, 1 skipped, 34 deselected" in done.stdout


SHUT = """
import fairmark
class Shut(fairmark.SyncSUT):
    def open(self):
        raise OSError("no such device")
    def generate(self, sample):
        yield fairmark.Failed("engine_error", "no voice")
class Mute(Shut):
    def open(self):
        pass
@fairmark.hookimpl
def fairmark_suts():
    return {"shut": Shut, "mute": Mute}
"""


def test_a_system_that_does_not_open_fails_every_check_for_that_reason(tmp_path: Path) -> None:
    (tmp_path / "shut.py").write_text(SHUT)
    done = run(tmp_path, "--fairmark-sut", "shut", "--fairmark-plugin", "shut.py")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "37 failed" in done.stdout
    for check in ("light-import", "described", "answers", "cache"):
        assert f"\n{check}: open: OSError: no such device\n" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_check_that_cannot_be_made_is_no_skipped_test(tmp_path: Path) -> None:
    (tmp_path / "shut.py").write_text(SHUT)
    done = run(tmp_path, "--fairmark-sut", "mute", "--fairmark-plugin", "shut.py", "-k", "not-empty")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "not-empty: not evaluable: no query was answered" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fairmark-sut", "nope"], "there is no such plugin (got 'nope')"),
        (["--fairmark-sut", "sim-queue", "--fairmark-option", "servers=x"], "has the wrong type (got 'x')"),
    ],
)
def test_wrong_use_is_said_in_one_line(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = run(tmp_path, *arguments)
    assert done.returncode == 4
    assert words in done.stderr


def test_nothing_is_imported_unless_a_system_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_light.py").write_text(
        "import sys\n"
        "def test_light():\n"
        "    assert not {'numpy', 'pyarrow', 'fairmark.conformance.kit'} & set(sys.modules)\n"
    )
    # Without other pytest plugins, which import what they like.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", LOAD, "test_light.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
