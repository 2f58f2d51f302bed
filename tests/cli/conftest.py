"""The command line as a user calls it: a process, its output and its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCENARIO = """\
schema = "fairmark/scenario/1"
name = "tiny"
scenario = "Server"

[model]
name = "sim"

[samples]
source = "questions.jsonl"
prompt = "question"
performance_sample_count = 24

[generation]
max_output_tokens = 8

[warmup]
queries = 2
steady = false

[run]
min_query_count = 64
query_timeout_s = 5
drain_timeout_s = 5

[constraints]
percentile = 90
ttft_ms = 20_000 # so that a busy machine is not what is tested: the send lag may be 1 % of it

[settings]
target_qps = 200
"""


@dataclass(frozen=True)
class Result:
    """What a command left on the terminal."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        return json.loads(self.out, parse_constant=refuse)


Fairmark = Callable[..., Result]


@pytest.fixture
def fairmark(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Fairmark:
    """Runs fairmark in an empty folder that holds one small scenario, ``tiny.toml``."""
    rows = ({"question": f"What is {n} plus {n}?"} for n in range(32))
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "tiny.toml").write_text(SCENARIO)
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))

    def call(*arguments: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "fairmark", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Result(done.returncode, done.stdout, done.stderr)

    return call
