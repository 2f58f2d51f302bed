"""Closed loop over HTTP: one worker on one core, full evidence, beside wrk and aiohttp."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.driver import CONCURRENCY, PATH, Load, body, closed_loop
from benchmarks.mock import DRIVER_CORE, Mock, Shape, build, cores_missing, mock_server
from benchmarks.result import Goal, Result, against_peer, not_run
from benchmarks.wrk import missing as wrk_missing
from benchmarks.wrk import wrk_per_s

__all__ = ["run"]


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    shape: Shape
    peer: str
    goal: Goal


_ROWS: Final = (
    _Row("http: one document, rate", "json", "wrk", Goal("≥", 0.7)),
    _Row("http: stream in one write, rate", "stream", "wrk", Goal("≥", 0.5)),
    _Row("http: stream in one write, CPU a response", "stream", "aiohttp", Goal("≤", 0.12)),
    _Row("http: stream by chunk, CPU a response", "stream-by-chunk", "aiohttp", Goal("≤", 0.8)),
)
_UNITS: Final = {"wrk": "responses/s", "aiohttp": "µs"}


def run(quick: bool) -> list[Result]:
    """The rows."""
    program = build()
    reason = cores_missing() or (program if isinstance(program, str) else None)
    absent = {"wrk": reason or wrk_missing(), "aiohttp": reason or _aiohttp_missing()}
    rows = []
    for shape in dict.fromkeys(row.shape for row in _ROWS):
        mine = [row for row in _ROWS if row.shape == shape]
        peers = [row.peer for row in mine if absent[row.peer] is None]
        if peers:
            assert isinstance(program, Path)
            # A server that sleeps between requests would charge every client for waking it.
            with mock_server(program, shape, busy=True) as mock:
                ours, theirs = _rounds(mock, shape, peers, quick=quick)
        rows += [
            not_run(row.name, peer=row.peer, goal=row.goal, unit=_UNITS[row.peer], note=why)
            if (why := absent[row.peer])
            else _result(row, ours, theirs[row.peer])
            for row in mine
        ]
    return rows


def _rounds(
    mock: Mock, shape: Shape, peers: Sequence[str], *, quick: bool
) -> tuple[list[Load], Mapping[str, list[float]]]:
    """All sides in turn, again and again: what slows the machine down meets all of them."""
    rounds, duration_s = (3, 1.0) if quick else (5, 2.0)
    ours: list[Load] = []
    theirs: dict[str, list[float]] = {peer: [] for peer in peers}
    for _ in range(rounds):
        ours.append(closed_loop(mock.port, shape, duration_s=duration_s))
        if "wrk" in peers:
            theirs["wrk"].append(wrk_per_s(mock.port, shape, duration_s=duration_s))
        if "aiohttp" in peers:
            theirs["aiohttp"].append(_aiohttp_cpu_us(mock.port, shape, duration_s=duration_s))
    return ours, theirs


def _result(row: _Row, ours: Sequence[Load], theirs: Sequence[float]) -> Result:
    figures = [load.per_s if row.peer == "wrk" else load.cpu_us for load in ours]
    cores = min(load.cores for load in ours)
    note = (
        f"the driver got {cores:.2f} of its core in one run: the machine was shared" if cores < 0.9 else None
    )
    return against_peer(
        row.name,
        figures,
        theirs,
        peer=row.peer,
        goal=row.goal,
        unit=_UNITS[row.peer],
        note=note if row.peer == "wrk" else None,
    )


def _aiohttp_missing() -> str | None:
    if importlib.util.find_spec("aiohttp") is None:
        return "aiohttp is not installed (pip install 'fairmark[bench]')"
    return None


def _aiohttp_cpu_us(port: int, shape: Shape, *, duration_s: float) -> float:
    with tempfile.NamedTemporaryFile(prefix="fairmark-") as file:
        file.write(body(shape))
        file.flush()
        url = f"http://127.0.0.1:{port}{PATH}"
        command = [sys.executable, "-m", "benchmarks.aiohttp_client", url, file.name]
        done = subprocess.run(
            [*command, str(CONCURRENCY), str(duration_s)],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {DRIVER_CORE}),
        )
    return float(done.stdout.split()[0])
