"""LoadGen as an oracle: runs it in a child process and reads what it logged."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

pytest.importorskip("mlperf_loadgen", reason="needs the mlcommons-loadgen wheel")

settings.register_profile(
    "differential",
    max_examples=int(os.environ.get("FAIRMARK_DIFFERENTIAL_CASES", "200")),
    deadline=None,
    derandomize="FAIRMARK_DIFFERENTIAL_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)

_DETAIL = re.compile(r'^:::MLLOG \{"key": "([^"]+)", "value": (.*?), "time_ms": ', re.DOTALL)
_SAMPLE = re.compile(
    r'"name":"Sample".*"ph":"b".*"ts":([\d.]+),"args":\{"sample_seq":(\d+),"query_seq":(\d+),'
    r'"sample_idx":(\d+),"issue_start_ns":(-?\d+),"complete_ns":(-?\d+)\}'
)
_SPAN = re.compile(r'"name":"(GenerateQueries|SampleLoop)","ph":"X".*"ts":([\d.]+),"dur":([\d.]+)')
_ORIGIN = re.compile(r'^"ts":([\d.]+)', re.MULTILINE)


def _ns(microseconds: str) -> int:
    whole, _, fraction = microseconds.partition(".")
    return int(whole) * 1000 + int(fraction.ljust(3, "0")[:3])


@dataclass(frozen=True)
class Run:
    """One LoadGen run. Trace columns are int64 per sample in sequence order; times in ns."""

    answer: dict[str, Any]
    detail: list[tuple[str, Any]]
    query: np.ndarray
    sample_index: np.ndarray
    scheduled_ns: np.ndarray
    issue_delay_ns: np.ndarray
    latency_ns: np.ndarray
    earliest_start_ns: int
    latest_start_ns: int
    origin_ns: int
    logged: list[int]

    def all(self, key: str) -> list[Any]:
        return [value for name, value in self.detail if name == key]

    def one(self, key: str) -> Any:
        (value,) = self.all(key)
        return value

    @property
    def errors(self) -> list[str]:
        return [str(value) for name, value in self.detail if name.startswith("error_")]


class LoadGen:
    """The wheel in a child process that is started again when it dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._child: subprocess.Popen[str] | None = None

    def ask(self, case: dict[str, Any]) -> dict[str, Any]:
        if self._child is None or self._child.poll() is not None:
            command = [sys.executable, str(Path(__file__).with_name("loadgen_child.py")), str(self.folder)]
            self._child = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=self.folder
            )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(case) + "\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline() or '{"died": true}')
        assert "died" not in answer, f"LoadGen died on {case}"
        return answer

    def run(self, case: dict[str, Any]) -> Run:
        answer = self.ask(case)
        return self._read(answer)

    def close(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.wait(timeout=30)

    def _read(self, answer: dict[str, Any]) -> Run:
        detail = [
            (match[1], _value(match[2]))
            for line in (self.folder / "mlperf_log_detail.txt").read_text().splitlines()
            if (match := _DETAIL.match(line))
        ]
        trace = (self.folder / "mlperf_log_trace.json").read_text()
        samples = sorted((m.groups() for m in _SAMPLE.finditer(trace)), key=lambda row: int(row[1]))
        columns = list(zip(*samples, strict=True)) or [()] * 6
        spans = [(m[1], _ns(m[2]), _ns(m[3])) for m in _SPAN.finditer(trace)]
        origin = _ORIGIN.search(trace)
        assert origin is not None
        return Run(
            answer=answer,
            detail=detail,
            query=np.array([int(x) for x in columns[2]], dtype=np.int64),
            sample_index=np.array([int(x) for x in columns[3]], dtype=np.int64),
            scheduled_ns=np.array([_ns(x) for x in columns[0]], dtype=np.int64),
            issue_delay_ns=np.array([int(x) for x in columns[4]], dtype=np.int64),
            latency_ns=np.array([int(x) for x in columns[5]], dtype=np.int64),
            earliest_start_ns=min(at + length for name, at, length in spans if name == "GenerateQueries"),
            latest_start_ns=min((at for name, at, _ in spans if name == "SampleLoop"), default=0),
            origin_ns=_ns(origin[1]),
            logged=[
                entry["seq_id"]
                for entry in json.loads((self.folder / "mlperf_log_accuracy.json").read_text())
            ],
        )


def _value(text: str) -> Any:
    if text.strip("-") in ("nan", "inf"):
        return None
    return json.loads(text, strict=False)


@pytest.fixture(scope="session")
def loadgen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadGen]:
    oracle = LoadGen(tmp_path_factory.mktemp("loadgen"))
    yield oracle
    oracle.close()
