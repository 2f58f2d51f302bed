"""What this client can do on this host: measured against a server that does nothing, and remembered.

A figure holds for one host, boot, version of fairmark, pacer, set of cores and number of workers. It tells
a run that is near the client's own limit from one that is far from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

import fairmark
from fairmark.drive.crew import Crew
from fairmark.drive.http.request import request_head, write_bodies
from fairmark.drive.job import Calibration
from fairmark.drive.orders import Orders, PhaseOrders, Target
from fairmark.drive.pacing import PacerName
from fairmark.drive.policy import Limits
from fairmark.errors import SutError
from fairmark.evidence.closing import utc_now
from fairmark.evidence.columns import Phase
from fairmark.evidence.environment import hashed_host
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LivePhase, LiveStore, create_store
from fairmark.samples.cache import cache_folder
from fairmark.sut.api import Endpoint

__all__ = ["ceilings"]

_CONNECTIONS: Final = 32
_CLOSED_NS: Final = 1_000_000_000
_MOST_QPS: Final = 150_000
"""Sizes the plan of the closed loop, so that it cannot end before its time."""

_PACED_QPS: Final = 1000
_PACED: Final = 1000
_BODY: Final = b'{"model":"null","messages":[{"role":"user","content":"' + b"x" * 400 + b'"}],"stream":false}'
_TIMEOUT_NS: Final = 5_000_000_000


def ceilings(
    how: Calibration, *, workers: int, cores: Sequence[int], pacer: PacerName | None
) -> list[dict[str, Any]] | None:
    """Each worker's ceiling: ``qps`` in a closed loop of 32 connections with all workers at it, and the send
    lag at a paced 1000/s: ``lag_p50_ns``, ``lag_p99_ns``. None if ``how`` is ``none``.

    Raises:
        SutError: the null server or a worker did not do its part.
    """
    if how == "none":
        return None
    path = cache_folder() / f"ceiling-{_key(workers, cores, pacer)}.json"
    remembered = _remembered(path, workers) if how == "cached" else None
    if remembered is not None:
        return remembered
    measured = _measure(workers, cores, pacer)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, measured)
    return measured


def _remembered(path: Path, workers: int) -> list[dict[str, Any]] | None:
    """What was measured before; None if nothing was, or a damaged file is all that is left of it."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    figures = ("qps", "lag_p50_ns", "lag_p99_ns")
    whole = isinstance(found, list) and all(
        isinstance(one, dict) and all(type(one.get(name)) is int for name in figures) for one in found
    )
    return found if whole and len(found) == workers else None


def _key(workers: int, cores: Sequence[int], pacer: PacerName | None) -> str:
    boot = Path("/proc/sys/kernel/random/boot_id")
    parts = {
        "host": hashed_host(),
        "boot": boot.read_text(encoding="utf-8").strip() if boot.exists() else None,
        "version": fairmark.__version__,
        "python": sys.version,
        "workers": workers,
        "cores": list(cores),
        "pacer": pacer,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _measure(workers: int, cores: Sequence[int], pacer: PacerName | None) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name, _null_server(cores) as port:
        folder = Path(name)
        write_bodies(folder, {0: _BODY})
        _orders(port, cores, pacer).write(folder)
        store = create_store(folder, _phases(), workers=workers, dialect="null", stream=False)
        head = request_head(Endpoint("127.0.0.1", port, "/"), "fairmark")
        with Crew(store, [head], folder) as crew:
            finished = [crew.drive(number, lambda: None) for number in range(len(store.phases))]
        if not all(finished):
            raise SutError(f"the calibration of the client ended early: {crew.detail}")
        return [_ceiling(store, worker) for worker in range(workers)]


def _phases() -> list[LivePhase]:
    due_ns = np.arange(_PACED, dtype=np.int64) * (1_000_000_000 // _PACED_QPS)
    return [
        _phase("warmup", 2000),
        _phase("accuracy", _MOST_QPS * _CLOSED_NS // 1_000_000_000),
        _phase("performance", _PACED, due_ns),
    ]


def _phase(name: Phase, queries: int, due_ns: np.typing.NDArray[np.int64] | None = None) -> LivePhase:
    return LivePhase(name, np.zeros(queries, np.int64), np.arange(queries + 1, dtype=np.int64), due_ns)


def _orders(port: int, cores: Sequence[int], pacer: PacerName | None) -> Orders:
    closed = PhaseOrders(Limits(max_duration_ns=_CLOSED_NS), _CONNECTIONS, _CONNECTIONS)
    return Orders(
        targets=[Target("127.0.0.1", port, tls=False)],
        phases=[closed, closed, PhaseOrders(Limits(), None, _CONNECTIONS)],
        timeout_ns=_TIMEOUT_NS,
        drain_ns=_TIMEOUT_NS,
        cores=cores,
        coordinator=os.getpid(),
        pacer=pacer,
    )


@contextmanager
def _null_server(driver_cores: Sequence[int]) -> Iterator[int]:
    """Run the null server on the cores that the driver leaves; gives its port."""
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    cores = [str(core) for core in sorted(usable - set(driver_cores))] if driver_cores else []
    command = [sys.executable, "-m", "fairmark.drive.null_server", *cores]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            if not line:
                raise SutError("the null server that calibrates the client did not start")
            yield int(line)
        finally:
            server.stdin.close()


def _ceiling(store: LiveStore, worker: int) -> dict[str, Any]:
    stamps = store.columns().stamps
    issued, sent, completed = (np.array(view) for view in (stamps.issued, stamps.sent, stamps.completed))
    closed, paced = (_slots(store, number, worker) for number in (1, 2))
    done = completed[closed][completed[closed] > 0]
    span_s = (done.max() - issued[closed][issued[closed] > 0].min()) / 1e9
    due_ns = store.phases[2].due_ns
    assert due_ns is not None
    lag_ns = np.sort(sent[paced] - store.control().epoch_ns(2) - due_ns[paced - store.first_seq[2]])
    return {
        "qps": round(len(done) / span_s),
        "connections": _CONNECTIONS,
        "paced_qps": _PACED_QPS,
        "lag_p50_ns": int(lag_ns[len(lag_ns) // 2]),
        "lag_p99_ns": int(lag_ns[len(lag_ns) * 99 // 100]),
        "utc": utc_now(),
    }


def _slots(store: LiveStore, phase: int, worker: int) -> np.typing.NDArray[np.int64]:
    """The seqs of a worker's share of a phase."""
    return store.first_seq[phase] + np.flatnonzero(store.phases[phase].worker_of(store.workers) == worker)
