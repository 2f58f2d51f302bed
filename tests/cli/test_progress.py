"""Progress is for whoever reads it; a run does not depend on that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

VIRTUAL = ("--sut", "sim-llm", "-o", "prefill_ms=1", "-o", "decode_ms=1", "--clock", "virtual")


def test_a_reader_that_goes_away_does_not_end_the_run(fairmark: Callable[..., Any], tmp_path: Path) -> None:
    whole = fairmark("run", "tiny.toml", *VIRTUAL, "--out", "heard")
    assert "tiny: " in whole.err
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "fairmark", "run", "tiny.toml", *VIRTUAL, "--out", "unheard"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=writer,
            timeout=120,
        )
    finally:
        os.close(writer)
    assert done.returncode == whole.code
    assert (tmp_path / "unheard" / "run.json").is_file()
    assert b"run folder  unheard" in done.stdout
