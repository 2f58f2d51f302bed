"""A run of a system in the worker's process, from a job to a folder with sealed evidence."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairmark.drive.crew import Crew
from fairmark.drive.facts import job_facts
from fairmark.drive.folder import begin, make_folder, preparing, take_back, write_given
from fairmark.drive.inprocess.content import write_samples
from fairmark.drive.job import InProcessJob, Progress, Report
from fairmark.drive.orders import Orders
from fairmark.drive.run import drive_phases
from fairmark.drive.stop import StopSignal
from fairmark.drive.traffic import live_phase, phase_orders, slots
from fairmark.errors import InputError, SutError
from fairmark.evidence.closing import FACTS, close_run
from fairmark.evidence.environment import environment, hashed_host
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LIVE, LivePhase, LiveStore, create_store
from fairmark.evidence.recorded import EVENTS
from fairmark.evidence.recover import LOCK

__all__ = ["WORKER", "execute_in_process"]

WORKER: Final = "fairmark.drive.inprocess.worker"
_WHOLE_QUERY: Final = 1 << 62
"""The worker knows how much of the one Offline query its system takes at once."""

_CLOSE_PATIENCE_S: Final = 60.0
"""Engines may take a while to let go of a model."""

_TRACE_PATIENCE_S: Final = 900.0
"""And profilers to write what they saw."""


def execute_in_process(job: InProcessJob, *, progress: Report, stop: StopSignal) -> Path:
    """Drive a run and leave its folder as `fairmark.drive.run.execute` does.

    The system is made, opened, driven and closed in one worker process.

    Returns:
        ``job.out``.

    Raises:
        InputError: the run cannot be prepared from what the user gave; nothing was driven.
        SutError: the system does not open; nothing was driven, and nothing but logs is left.
        EvidenceError: there was no space to seal what was driven; it can be recovered.
    """
    _check_workers(job)
    orders = _orders(job)
    folder = make_folder(job.out)
    with (folder / LIVE / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = _prepare_store(job, orders)
        crew = Crew(
            store,
            [],
            folder / "evidence" / "logs",
            lock.fileno(),
            module=WORKER,
            patience_s=_TRACE_PATIENCE_S if job.mode == "profile" else _CLOSE_PATIENCE_S,
        )
        detail = drive_phases(job, store, crew, progress, stop, flush=_flushed_there)
        if not store.control().released and store.control().workers[0].reason(0) == "sut_failed":
            take_back(job.out)
            raise SutError(detail or "the system under test does not open")
        progress(Progress("seal"))
        close_run(folder, detail=detail, after=environment())
    return folder


def _flushed_there() -> None:
    """The worker tells the system itself."""


def _check_workers(job: InProcessJob) -> None:
    settings = job.scenario.settings
    if settings.workers != 1:
        raise InputError(
            "a system in the driver's process has one worker",
            source=job.scenario.source,
            field="settings.workers",
            value=settings.workers,
            accepted="1",
        )


def _orders(job: InProcessJob) -> Orders:
    at_once = slots(job, _WHOLE_QUERY)
    run = job.scenario.run
    return Orders(
        targets=[],
        phases=[phase_orders(job, name, at_once) for name in job.phases],
        timeout_ns=round(run.query_timeout_s * 1e9),
        drain_ns=round(run.drain_timeout_s * 1e9),
        cores=[],
        coordinator=os.getpid(),
        pacer=job.pacer,
    )


def _prepare_store(job: InProcessJob, orders: Orders) -> LiveStore:
    """Put everything that the worker needs, and everything that is known already, on disk.

    Raises:
        InputError: there is no space for it; nothing is left behind.
    """
    with preparing(job.out):
        phases = [live_phase(name, job.plans[name]) for name in job.phases]
        return _write(job, orders, _facts(job), phases)


def _facts(job: InProcessJob) -> dict[str, Any]:
    """The facts of the record; the claims come from the worker, once the system is open."""
    started_utc, attempts = begin(job)
    sut: dict[str, Any] = {
        "shape": job.plugin.shape,
        "isolation": job.plugin.isolation,
        "dialect": None,
        "claims": {},
        "observed": {},
    }
    return job_facts(job, started_utc=started_utc, attempts=attempts, clock="real", requests=None, sut=sut)


def _write(
    job: InProcessJob, orders: Orders, facts: dict[str, Any], phases: Sequence[LivePhase]
) -> LiveStore:
    live = job.out / LIVE
    write_json(live / FACTS, facts)
    write_json(live / "environment.json", environment())
    write_given(job)
    wanted = np.unique(np.concatenate([phase.sample_index for phase in phases]))
    write_samples(live, job.library, wanted.tolist())
    orders.write(live)
    job.plugin.write(live)
    return create_store(
        live,
        phases,
        workers=1,
        dialect=EVENTS,
        stream=True,
        repetition=job.repetition,
        common={"host": hashed_host(), "isolation": job.plugin.isolation},
        of_tokens=job.scenario.samples.input != "data",
    )
