"""What a run costs beside its requests: time to the first one, memory of the driving process, growth."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from benchmarks.mock import Mock, build, cores_missing, mock_server
from benchmarks.result import Goal, Result, against_limit, not_run
from fairmark.drive.crew import WORKER

__all__ = ["run"]

START: Final = Goal("≤", 1.0)
RESIDENT: Final = Goal("≤", 90.0)
GROWTH: Final = Goal("≤", 1.5)
SIZES: Final = (10_000, 100_000, 1_000_000)
QUICK_SIZES: Final = (10_000, 100_000)

_START: Final = "start of the command to the first request"
_RESIDENT: Final = "driving process, 10^5 streaming responses"
_TIME: Final = "time of a whole run, {} queries: per query, against 10^4"
_MEMORY: Final = "memory of a whole run, {} queries: per query, against 10^4"

_SCENARIO: Final = """
schema = "fairmark/scenario/1"
name = "footprint"
scenario = "Concurrency"
model = {{ name = "mock-1" }}
samples = {{ source = "rows.jsonl", input = "text", prompt = "text", performance_sample_count = 64 }}
warmup = {{ queries = 64, samples = "same", steady = false }}
generation = {{ max_output_tokens = 32 }}
run = {{ min_query_count = {queries}, max_query_count = {queries} }}
settings = {{ concurrency = 64 }}
"""


def run(quick: bool) -> list[Result]:
    """The rows."""
    program = build()
    reason = cores_missing() or (program if isinstance(program, str) else None)
    if reason is not None:
        return [
            not_run(_START, goal=START, unit="s", note=reason),
            not_run(_RESIDENT, goal=RESIDENT, unit="MB", note=reason),
        ]
    assert isinstance(program, Path)
    with mock_server(program, "stream") as mock:
        _Run(mock, 64)  # leaves the calibration of this client in the cache
        starts = [_Run(mock, 64).start_s for _ in range(3 if quick else 5)]
        streamed = _Run(mock, 100_000)
    with mock_server(program, "json") as mock:
        runs = {size: _Run(mock, size, stream=False) for size in (QUICK_SIZES if quick else SIZES)}
    smallest = runs[SIZES[0]]
    rows = [
        against_limit(_START, starts, goal=START, unit="s"),
        against_limit(_RESIDENT, [streamed.driver_mb], goal=RESIDENT, unit="MB"),
    ]
    for size, one in runs.items():
        if one is smallest:
            continue
        scale = size / SIZES[0]
        rows += [
            against_limit(
                _TIME.format(size), [one.wall_s / smallest.wall_s / scale], goal=GROWTH, unit="× linear"
            ),
            against_limit(
                _MEMORY.format(size), [one.whole_mb / smallest.whole_mb / scale], goal=GROWTH, unit="× linear"
            ),
        ]
    return rows


class _Run:
    """One ``fairmark run``, watched from outside.

    Attributes:
        start_s: from the start of the command to the first request at the server; the probe is not one.
        wall_s: of the whole command.
        driver_mb, whole_mb: most resident memory of the driving process, and of the command itself.

    Raises:
        RuntimeError: the command failed.
    """

    def __init__(self, mock: Mock, queries: int, *, stream: bool = True) -> None:
        self.driver_mb = self.whole_mb = 0.0
        with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
            folder = Path(name)
            rows = "".join(f'{{"text": "Say a word, number {n}"}}\n' for n in range(64))
            (folder / "rows.jsonl").write_text(rows, encoding="utf-8")
            (folder / "scenario.toml").write_text(_SCENARIO.format(queries=queries), encoding="utf-8")
            mock.forget()
            began_ns = time.monotonic_ns()
            self._watch(self._start(mock, folder, stream=stream), folder)
            self.wall_s = (time.monotonic_ns() - began_ns) / 1e9
            # The first request is the probe's.
            self.start_s = (int(mock.arrivals_ns()[1]) - began_ns) / 1e9
            if mock.requests <= queries:
                raise RuntimeError(f"{mock.requests} requests arrived; {queries} and a probe were to be sent")

    def _start(self, mock: Mock, folder: Path, *, stream: bool) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fairmark", "run", "scenario.toml", "--sut", "http", "--out", "out"]
        options = [f"base_url=http://127.0.0.1:{mock.port}", f"stream={str(stream).lower()}"]
        for option in options:
            command += ["-o", option]
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)

    def _watch(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                self.whole_mb = max(self.whole_mb, watched.memory_info().rss / 1e6)
                for child in watched.children():
                    if WORKER in child.cmdline():
                        self.driver_mb = max(self.driver_mb, child.memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                continue
            time.sleep(0.02)
        if process.returncode not in (0, 1):
            said = (folder / "log").read_text("utf-8", "replace").strip()
            raise RuntimeError(f"fairmark run ended with exit code {process.returncode}: {said[-500:]}")
