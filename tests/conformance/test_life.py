"""What the life of a system shows, of faults that no other run may see."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from fairmark.conformance.check import Result
from fairmark.conformance.kit import CHECKS, Kit
from fairmark.conformance.patience import OPEN_FACTOR
from fairmark.errors import SutError
from fairmark.study.run import choose_sut

BY_ID = {check.id: check for check in CHECKS}
LIFE = ("reload", "flush", "given-up", "no-early-work", "dead-engine", "close")
BAD = Path(__file__).parent / "bad_plugins.py"
HANGING = """
import subprocess
import sys
import time
from pathlib import Path

import fairmark


class InOpen(fairmark.SyncSUT):
    def open(self):
        engine = subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        Path(__file__).with_name("engine.pid").write_text(str(engine.pid))
        time.sleep(1e6)

    def generate(self, sample):
        yield fairmark.Done()


@fairmark.hookimpl
def fairmark_suts():
    return {"in-open": InOpen}
"""


def live(name: str, patience_s: float = 60.0) -> dict[str, Result]:
    """What the checks of the life find."""
    with Kit(choose_sut(name, plugins=[str(BAD)]), patience_s=patience_s) as kit:
        return {check: kit.make(BY_ID[check]) for check in LIFE}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("close_process", "left behind: process python"),
        ("close_daemon", "left behind: thread engine"),
        ("close", "left behind: thread engine"),
        ("flush_hangs", "flush does not return: it did not come back in "),
        ("flush_raises", "flush: RuntimeError: nothing to flush"),
    ],
)
def test_what_is_found_is_the_fault_and_no_other(name: str, words: str) -> None:
    found = live(name, 2.0 if name == "flush_hangs" else 60.0)
    assert {check for check, result in found.items() if result.outcome == "fail"} == {name.partition("_")[0]}
    assert words in found[name.partition("_")[0]].found


def test_an_engine_in_a_session_of_its_own_ends_when_the_kit_gives_up(tmp_path: Path) -> None:
    plugin = tmp_path / "hanging.py"
    plugin.write_text(HANGING)
    # Long enough to come to open.
    with (
        Kit(choose_sut("in-open", plugins=[str(plugin)]), patience_s=1.0) as kit,
        pytest.raises(SutError, match=f"does not open: it did not come back in {OPEN_FACTOR:g} s"),
    ):
        kit.make(BY_ID["reload"])
    engine = int((tmp_path / "engine.pid").read_text())
    until_s = time.monotonic() + 60
    while psutil.pid_exists(engine) and psutil.Process(engine).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < until_s
        time.sleep(0.05)
