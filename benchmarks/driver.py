"""Ours: one worker of the real driver, with all evidence on, against a server that is already there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic_ns
from typing import Final

import numpy as np
import numpy.typing as npt
import psutil

from benchmarks.mock import CHUNKS, DRIVER_CORE, Shape
from fairmark.drive.crew import WORKER, Crew
from fairmark.drive.http.request import request_head, write_bodies
from fairmark.drive.orders import Orders, PhaseOrders, Target
from fairmark.drive.policy import Limits
from fairmark.evidence.columns import Phase
from fairmark.evidence.live import LivePhase, LiveStore, create_store
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.sut.api import Endpoint
from fairmark.wire.dialects import dialect

__all__ = ["CONCURRENCY", "DIALECT", "PATH", "Load", "body", "closed_loop", "driven", "open_loop"]

CONCURRENCY: Final = 64
DIALECT: Final = "openai-chat"
PATH: Final = "/v1/chat/completions"

_TIMEOUT_NS: Final = 10_000_000_000
_WARMUP_NS: Final = 300_000_000
_MOST_QPS: Final = 200_000
_BODIES: Final = 64

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Load:
    """What the worker reached.

    Attributes:
        per_s: completed responses per second.
        cpu_us: CPU time per completed response.
        cores: CPU time per second.
        resident_mb: the process's peak resident memory.
    """

    per_s: float
    cpu_us: float
    cores: float
    resident_mb: float


def body(shape: Shape) -> bytes:
    """The request that all sides send."""
    sample = Sample(0, {}, "Say a word, " * 20, Generation(max_output_tokens=CHUNKS))
    return dialect(DIALECT).render(sample, model="mock-1", stream=shape != "json")


def closed_loop(port: int, shape: Shape, *, duration_s: float) -> Load:
    """Keep `CONCURRENCY` requests in flight for ``duration_s``, after a short warm-up."""
    loops: list[tuple[int, Phase]] = [(_WARMUP_NS, "warmup"), (round(duration_s * 1e9), "performance")]
    phases = [_phase(name, _MOST_QPS * ns // 1_000_000_000) for ns, name in loops]
    orders = [PhaseOrders(Limits(max_duration_ns=ns), CONCURRENCY, CONCURRENCY) for ns, _ in loops]
    with driven(port, shape, phases, orders) as (store, usage):
        return _load(store, usage)


def open_loop(port: int, due_ns: Int64s) -> tuple[Load, Int64s]:
    """Send one request at each of ``due_ns``; also gives when they were due on CLOCK_MONOTONIC."""
    phases = [_phase("warmup", 2000), _phase("performance", len(due_ns), due_ns)]
    orders = [PhaseOrders(Limits(), 8, 8), PhaseOrders(Limits(), None, 32)]
    with driven(port, "json", phases, orders) as (store, usage):
        return _load(store, usage), store.control().epoch_ns(1) + due_ns


def _phase(name: Phase, queries: int, due_ns: Int64s | None = None) -> LivePhase:
    index = np.arange(queries, dtype=np.int64) % _BODIES
    return LivePhase(name, index, np.arange(queries + 1, dtype=np.int64), due_ns)


@dataclass(frozen=True, slots=True)
class _Usage:
    t_ns: int
    cpu_s: float
    resident_mb: float


@contextmanager
def driven(
    port: int, shape: Shape, phases: Sequence[LivePhase], orders: Sequence[PhaseOrders]
) -> Iterator[tuple[LiveStore, list[_Usage]]]:
    """The store after all phases, and what the worker had used, looked at all through the last of them.

    Raises:
        RuntimeError: the worker did not get through.
    """
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
        folder = Path(name)
        write_bodies(folder, dict.fromkeys(range(_BODIES), body(shape)))
        Orders(
            targets=[Target("127.0.0.1", port, tls=False)],
            phases=orders,
            timeout_ns=_TIMEOUT_NS,
            drain_ns=_TIMEOUT_NS,
            cores=[DRIVER_CORE],
            coordinator=os.getpid(),
        ).write(folder)
        store = create_store(folder, phases, workers=1, dialect=DIALECT, stream=shape != "json")
        head = request_head(Endpoint("127.0.0.1", port, PATH), "fairmark")
        usage: list[_Usage] = []
        with Crew(store, [head], folder) as crew:
            (worker,) = [p for p in psutil.Process().children() if WORKER in p.cmdline()]
            last = len(phases) - 1

            def look() -> None:
                if crew.control.released > last and (seen := _used(worker)) is not None:
                    usage.append(seen)

            for number in range(len(phases)):
                if not crew.drive(number, look if number == last else lambda: None):
                    raise RuntimeError(f"the driver ended early: {crew.detail}")
        yield store, usage


def _used(worker: psutil.Process) -> _Usage | None:
    """None once the process has ended."""
    try:
        times = worker.cpu_times()
        return _Usage(monotonic_ns(), times.user + times.system, worker.memory_info().rss / 1e6)
    except psutil.NoSuchProcess:
        return None


def _load(store: LiveStore, usage: Sequence[_Usage]) -> Load:
    """Between the first and the last look at the worker while it was issuing."""
    stamps = store.columns().stamps
    first = store.first_seq[-1]
    issued, completed = (np.array(view)[first:] for view in (stamps.issued, stamps.completed))
    ended_ns = np.sort(completed[completed > 0])
    if not len(ended_ns):
        raise RuntimeError("no request was completed")
    looks = [u for u in usage if issued[issued > 0].min() <= u.t_ns <= issued.max()]
    begin, end = looks[0], looks[-1]
    done = int(np.searchsorted(ended_ns, end.t_ns) - np.searchsorted(ended_ns, begin.t_ns))
    span_s, cpu_s = (end.t_ns - begin.t_ns) / 1e9, end.cpu_s - begin.cpu_s
    return Load(
        per_s=done / span_s,
        cpu_us=cpu_s / done * 1e6,
        cores=cpu_s / span_s,
        resident_mb=max(u.resident_mb for u in usage),
    )
