"""Every check catches its fault, and no other one fails with it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fairmark.conformance.check import Result
from fairmark.conformance.kit import CHECKS

Examine = Callable[..., list[Result]]

HERE = Path(__file__).parent
BAD = re.findall(r'^    "([a-z-]+)": \w+,$', (HERE / "bad_plugins.py").read_text("utf-8"), re.MULTILINE)
ALWAYS = {"ends-once", "own-answers", "token-counts"}
"""Checked in every test run; the others with the long suites."""
PATIENCE_S = {"flush": 8.0, "given-up": 8.0, "in-time": 8.0}
"""Where queries hang, the test waits this long for them; others may take their time on a busy machine."""


def test_there_is_a_bad_plugin_for_every_check() -> None:
    assert sorted([*BAD, "light-import"]) == sorted(check.id for check in CHECKS)
    assert len(CHECKS) >= 25


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name in ALWAYS else pytest.param(name, marks=pytest.mark.long)
        for name in [*BAD, "light-import"]
    ],
)
def test_a_bad_plugin_fails_its_own_check_and_no_other(name: str, examine: Examine) -> None:
    plugin = "heavy_plugin.py" if name == "light-import" else "bad_plugins.py"
    found = examine(name, plugin=plugin, patience_s=PATIENCE_S.get(name, 60.0))
    assert [(r.id, r.found) for r in found if r.outcome == "fail" and r.id != name] == []
    mine = next(r for r in found if r.id == name)
    assert mine.outcome == "fail", mine.found
    assert mine.fix
    assert mine.guards
