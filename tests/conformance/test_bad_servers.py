"""The same checks on a wire: a server with one fault."""

from __future__ import annotations

import pytest

from fairmark.conformance.kit import CHECKS, Kit
from fairmark.study.run import choose_sut

BY_ID = {check.id: check for check in CHECKS}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "check", "words"),
    [
        ("truncate@every=5", "answers", "truncated"),
        pytest.param(*("error@every=5", "answers", "engine_error"), marks=pytest.mark.long),
        pytest.param(*("status-500@every=5", "answers", "http_status"), marks=pytest.mark.long),
        ("empty@every=5", "not-empty", "answers were empty"),
        pytest.param("stall@every=5", "in-time", "stalled", marks=pytest.mark.long),
        ("no-usage", "token-counts", "lacks"),
    ],
)
def test_a_fault_of_a_server_is_found(fault: str, check: str, words: str) -> None:
    with Kit(choose_sut("sim-http", [f"faults={fault}"]), patience_s=8) as kit:
        found = kit.make(BY_ID[check])
    assert found.outcome == "fail"
    assert words in found.found
