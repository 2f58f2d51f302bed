"""Full disks: by a limit on file sizes, and by a file system that really is full."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.recover import recover

pytestmark = pytest.mark.faults


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_ends_the_run_with_its_log_closed(bench: Any, small_disk: Path) -> None:
    # 4 MiB of plan and reserve, then segments of 4 MiB: five of them do not fit.
    sut = bench.sut(output_tokens=1500, tokens_per_chunk=1, loop="uvloop")
    overrides = (
        "settings.concurrency=4",
        "settings.min_query_count=3000",
        "generation.max_output_tokens=1500",
    )
    ran = bench.run("Concurrency", sut, *overrides, out=small_disk / "run")
    assert ran.record["outcome"]["stop_reason"] == "disk_full"
    queries = load_evidence(ran.folder / "evidence").queries.to_pylist()
    assert 10 < len(queries) < 3000
    assert sum(q["failure"] == "aborted" for q in queries) <= 4
    assert {q["failure"] for q in queries} <= {None, "aborted"}


def test_too_little_space_to_begin_is_the_users_to_solve(bench: Any, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(22 << 20))
    with pytest.raises(InputError, match=r"no space for \d+ bytes.*disk with more space"):
        bench.run("Offline", bench.sut(), out=small_disk / "run")
    assert [p.name for p in (small_disk / "run").rglob("*")] == ["evidence", "logs"]


def test_no_space_to_seal_keeps_the_live_store(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("fairmark.evidence.seal.write_table", full)
        with pytest.raises(EvidenceError, match="free some and run: fairmark recover"):
            bench.run("Offline", bench.sut())
    folder = bench.tmp_path / "run1"
    assert not (folder / "run.json").exists()
    assert recover(folder).completed == 52
    assert json.loads((folder / "run.json").read_text())["evidence"]
