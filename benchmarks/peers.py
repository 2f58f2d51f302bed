"""Requests per CPU second beside whole tools, each by its own command and in its own environment.

A tool is run where `benchmarks.install_peers` has put it; one that is not there is not run, and so neither
beaten nor missed. All its processes share one core, the server has the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from benchmarks.driver import CONCURRENCY, closed_loop
from benchmarks.mock import DRIVER_CORE, Mock, build, cores_missing, mock_server
from benchmarks.result import Goal, Result, against_peer, not_run

__all__ = ["FOLDER", "PEERS", "Peer", "run"]

FOLDER: Final = Path(__file__).parent / ".peers"
_DEADLINE_S: Final = 240


@dataclass(frozen=True, slots=True)
class Peer:
    """A tool.

    Attributes:
        requirement: what pip installs; None where it is not on PyPI.
        command: from the server's URL and a folder of its own, the arguments after its program.
        requests: how many it is asked to send.
    """

    name: str
    requirement: str | None
    program: str
    goal: Goal
    requests: int
    command: Callable[[str, Path], Sequence[str]]

    @property
    def path(self) -> Path:
        """Its program, if it is installed."""
        return FOLDER / self.name / "bin" / self.program


def _inference_perf(url: str, folder: Path) -> Sequence[str]:
    settings = {
        "api": {"type": "chat", "streaming": False},
        "data": {"type": "mock"},
        "load": {
            "type": "concurrent",
            "num_workers": 1,
            "stages": [{"num_requests": 4000, "concurrency_level": CONCURRENCY}],
        },
        "server": {"type": "vllm", "model_name": "mock-1", "base_url": url, "ignore_eos": True},
        "storage": {"local_storage": {"path": str(folder / "reports")}},
    }
    # JSON is YAML.
    (folder / "config.yml").write_text(json.dumps(settings), encoding="utf-8")
    return ["--config_file", str(folder / "config.yml")]


def _aiperf(url: str, folder: Path) -> Sequence[str]:
    asked = {"model": "mock-1", "url": url, "endpoint-type": "chat", "concurrency": CONCURRENCY}
    sizes = {"request-count": 3000, "tokenizer": "builtin", "artifact-dir": folder / "artifacts"}
    return ["profile", *(f"--{name}={value}" for name, value in {**asked, **sizes}.items()), "--ui=none"]


def _guidellm(url: str, folder: Path) -> Sequence[str]:
    rows = folder / "rows.jsonl"
    rows.write_text('{"prompt": "Say a word"}\n' * 1000, encoding="utf-8")
    asked = {
        "backend": f"kind=openai_http,target={url},model=mock-1",
        "profile": f"kind=concurrent,streams={CONCURRENCY}",
        "constraint": "kind=max_requests,count=1000",
        "data": f"kind=json_file,path={rows}",
        "output": f"kind=json,path={folder / 'guidellm.json'}",
    }
    return ["run", *(f"--{name}={value}" for name, value in asked.items()), "--disable-console-interactive"]


def _endpoints(url: str, folder: Path) -> Sequence[str]:
    rows = folder / "rows.jsonl"
    rows.write_text('{"prompt": "Say a word"}\n' * 20_000, encoding="utf-8")
    asked = {"endpoints": url, "model": "mock-1", "dataset": rows, "report-dir": folder / "report"}
    return ["benchmark", "offline", *(f"--{name}={value}" for name, value in asked.items())]


PEERS: Final = (
    Peer("endpoints", None, "inference-endpoint", Goal("≥", 6.0), 20_000, _endpoints),
    Peer("inference-perf", "inference-perf", "inference-perf", Goal("≥", 40.0), 4000, _inference_perf),
    Peer("aiperf", "aiperf", "aiperf", Goal("≥", 100.0), 3000, _aiperf),
    Peer("guidellm", "guidellm", "guidellm", Goal("≥", 100.0), 1000, _guidellm),
)
_UNIT: Final = "requests/CPU s"


def run(quick: bool) -> list[Result]:
    """The rows."""
    program = build()
    reason = cores_missing() or (program if isinstance(program, str) else None)
    if reason is not None:
        return [_not_run(peer, reason) for peer in PEERS]
    assert isinstance(program, Path)
    with mock_server(program, "json", busy=True) as mock:
        return [_row(peer, mock, rounds=1 if quick else 3) for peer in PEERS]


def _row(peer: Peer, mock: Mock, *, rounds: int) -> Result:
    if not peer.path.exists():
        return _not_run(peer, "not installed (make bench-peers installs it where it can be had)")
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(1e6 / closed_loop(mock.port, "json", duration_s=2.0).cpu_us)
        figure = _per_cpu_s(peer, mock)
        if isinstance(figure, str):
            return _not_run(peer, figure)
        theirs.append(figure)
    return against_peer(_name(peer), ours, theirs, peer=peer.name, goal=peer.goal, unit=_UNIT)


def _name(peer: Peer) -> str:
    return f"requests per CPU second, beside {peer.name}"


def _not_run(peer: Peer, note: str) -> Result:
    return not_run(_name(peer), peer=peer.name, goal=peer.goal, unit=_UNIT, note=note)


def _per_cpu_s(peer: Peer, mock: Mock) -> float | str:
    """Requests per CPU second from the first request to the last, all its processes together; or why not."""
    mock.forget()
    used: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name, (Path(name) / "log").open("w+b") as log:
        process = subprocess.Popen(
            [str(peer.path), *peer.command(f"http://127.0.0.1:{mock.port}", Path(name))],
            cwd=name,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=lambda: os.sched_setaffinity(0, {DRIVER_CORE}),
        )
        deadline = time.monotonic() + _DEADLINE_S
        while process.poll() is None and time.monotonic() < deadline:
            used.append((mock.requests, _cpu_s(process.pid)))
            time.sleep(0.05)
        if process.poll() is None:
            _end(process)
            return f"did not end within {_DEADLINE_S} s"
        if process.returncode != 0 or mock.requests < peer.requests // 2:
            log.seek(0)
            last = log.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            return f"exit code {process.returncode} after {mock.requests} requests: {''.join(last)[:200]}"
    loading = [(count, cpu_s) for count, cpu_s in used if 0 < count < mock.requests]
    if len(loading) < 2 or loading[-1][1] <= loading[0][1]:
        return "too short to be measured"
    return (loading[-1][0] - loading[0][0]) / (loading[-1][1] - loading[0][1])


def _family(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def _cpu_s(pid: int) -> float:
    total = 0.0
    for process in _family(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _end(process: subprocess.Popen[bytes]) -> None:
    for one in reversed(_family(process.pid)):
        one.kill()
    process.wait()
