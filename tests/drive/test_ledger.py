"""The attempts ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairmark.drive.ledger import LEDGER, find_workspace, record_attempt
from fairmark.errors import InputError


def attempt(workspace: Path, digest: str, series: str | None = None) -> int:
    return record_attempt(
        workspace, run_id="r", scenario_digest=digest, mode="performance", utc="u", series=series
    )


def test_attempts_are_counted_per_scenario(tmp_path: Path) -> None:
    assert [attempt(tmp_path, d) for d in ("a", "b", "a", "a", "b")] == [1, 1, 2, 3, 2]
    assert len((tmp_path / LEDGER).read_text().splitlines()) == 5


def test_a_series_is_one_attempt(tmp_path: Path) -> None:
    assert [attempt(tmp_path, "a", series) for series in ("s", "s", "s", None, "t", "t", "s")] == [
        *(1, 1, 1, 2, 3, 3, 3)
    ]
    assert attempt(tmp_path, "b", "s") == 1


def test_lines_from_before_there_were_series_count_each(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text('{"scenario_digest":"a"}\n' * 2)
    assert attempt(tmp_path, "a", "s") == 3


def test_the_workspace_is_the_nearest_marked_folder(tmp_path: Path) -> None:
    (tmp_path / ".fairmark").mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_workspace(below) == tmp_path.resolve()


def test_a_foreign_line_is_named(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_text('{"scenario_digest":"a"}\nnonsense\n')
    with pytest.raises(InputError, match=r"attempts\.jsonl:2"):
        attempt(tmp_path, "a")
    assert "nonsense" in (tmp_path / LEDGER).read_text()


def test_an_unwritable_workspace_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        attempt(tmp_path / "missing", "a")
