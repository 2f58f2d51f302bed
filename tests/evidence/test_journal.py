"""The journal's chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairmark.errors import EvidenceError
from fairmark.evidence.journal import Journal, read_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "journal.jsonl"
    journal = Journal(made)
    journal.append("started", run_id="ü")
    journal.append("phase", phase="warmup")
    journal.append("sealed")
    return made


def test_entries_are_read_in_order(path: Path) -> None:
    assert [e["event"] for e in read_journal(path)] == ["started", "phase", "sealed"]


def test_a_reopened_journal_goes_on_with_its_chain(path: Path) -> None:
    Journal(path).append("again")
    assert [e["event"] for e in read_journal(path)] == ["started", "phase", "sealed", "again"]


@pytest.mark.parametrize("kept", [1, 30, 200])
def test_a_line_that_a_crash_cut_off_is_dropped(path: Path, kept: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines()[-1][:kept])
    with pytest.raises(EvidenceError, match="cut off"):
        read_journal(path)
    Journal(path).append("recovering")
    assert [e["event"] for e in read_journal(path)] == ["started", "phase", "sealed", "recovering"]


def test_a_first_line_that_was_cut_off_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"event":"star')
    Journal(path).append("recovering")
    assert [e["event"] for e in read_journal(path)] == ["recovering"]


def test_any_changed_byte_breaks_the_chain(path: Path) -> None:
    content = path.read_bytes()
    # The last line has nobody after it to vouch for it; the run record holds the digest of the whole file.
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    for position in range(last):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(EvidenceError):
            read_journal(path)


def test_a_removed_line_is_named(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(EvidenceError, match=r"journal\.jsonl:2: the chain is broken"):
        read_journal(path)


def test_figures_that_are_not_json_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        Journal(path).append("bad", value=float("nan"))
    assert len(read_journal(path)) == 3


def test_a_missing_or_empty_journal_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="cannot be read"):
        read_journal(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(EvidenceError, match="empty"):
        read_journal(tmp_path / "empty")
