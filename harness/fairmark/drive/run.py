"""The coordinator: prepares a run, lets the workers drive it, and seals what they stamped."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any

import numpy as np

import fairmark
from fairmark.drive.calibrate import ceilings
from fairmark.drive.crew import Crew
from fairmark.drive.facts import run_facts, run_id
from fairmark.drive.http.request import request_head, write_bodies
from fairmark.drive.job import Progress, RunJob
from fairmark.drive.ledger import record_attempt
from fairmark.drive.orders import Orders
from fairmark.drive.probe import probe
from fairmark.drive.stop import StopSignal
from fairmark.drive.traffic import check_descriptors, live_phase, make_orders
from fairmark.errors import InputError, SutError
from fairmark.evidence.closing import FACTS, close_run, utc_now
from fairmark.evidence.environment import environment, hashed_host
from fairmark.evidence.journal import Journal
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LIVE, LivePhase, LiveStore, create_store
from fairmark.evidence.recover import LOCK
from fairmark.evidence.requests import requests_sha256
from fairmark.evidence.store import DiskFullError
from fairmark.evidence.tables import write_table
from fairmark.sut.api import Endpoint
from fairmark.wire.dialects import Dialect, dialect

__all__ = ["execute"]

Report = Callable[[Progress], None]


def execute(job: RunJob, *, progress: Report, stop: StopSignal) -> Path:
    """Drive a run and leave its folder with sealed evidence and the facts of ``run.json``.

    A run that ends badly is closed all the same: ``outcome.stop_reason`` says how it ended.

    Returns:
        ``job.out``.

    Raises:
        InputError: the run cannot be prepared from what the user gave; nothing was driven.
        SutError: the endpoint does not answer a first request.
    """
    speech = dialect(job.sut.dialect)
    endpoints = list(job.sut.endpoints())
    if not endpoints:
        raise SutError("the system under test names no endpoint")
    heads = [request_head(e, f"fairmark/{fairmark.__version__}") for e in endpoints]
    orders = make_orders(job, endpoints)
    check_descriptors(job, orders)
    bodies = _render(job, speech)
    observed = _probe(job, endpoints, bodies, speech, progress)
    orders = _with_observed(orders, observed)
    progress(Progress("calibrate"))
    workers = job.scenario.settings.workers
    ceiling = ceilings(job.calibration, workers=workers, cores=orders.cores, pacer=job.pacer)
    folder = _make_folder(job.out)
    with (folder / LIVE / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        store = _prepare(job, orders, bodies, observed, ceiling)
        journal = Journal(folder / "evidence" / "journal.jsonl")
        journal.append("started", run_id=run_id(job, utc_now()), phases=list(job.phases))
        detail = _drive(job, store, heads, lock.fileno(), journal, progress, stop)
        progress(Progress("seal"))
        close_run(folder, detail=detail, after=environment())
    return folder


def _render(job: RunJob, speech: Dialect) -> dict[int, bytes]:
    """The request body of every sample that the run may send."""
    sut = job.sut
    wanted = np.unique(np.concatenate([job.plans[name].sample_index for name in job.phases]))
    return {
        index: speech.render(job.library.sample(index), model=sut.model, stream=sut.stream, extra=sut.extra)
        for index in wanted.tolist()
    }


def _probe(
    job: RunJob, endpoints: Sequence[Endpoint], bodies: Mapping[int, bytes], speech: Dialect, progress: Report
) -> dict[str, Any]:
    """Ask every endpoint for the first sample of the first phase."""
    if not job.probe:
        return {}
    progress(Progress("probe"))
    body = bodies[int(job.plans[job.phases[0]].sample_index[0])]
    timeout_s = job.scenario.run.query_timeout_s
    return {
        "endpoints": [probe(e, body, speech, stream=job.sut.stream, timeout_s=timeout_s) for e in endpoints]
    }


def _with_observed(orders: Orders, observed: Mapping[str, Any]) -> Orders:
    """Reuse connections only where the server was seen to keep them."""
    seen = observed.get("endpoints")
    if seen is None:
        return orders
    targets = [
        replace(target, persistent=endpoint["keeps_connection"])
        for target, endpoint in zip(orders.targets, seen, strict=True)
    ]
    return replace(orders, targets=targets)


def _make_folder(out: Path) -> Path:
    if (out / "run.json").exists() or (out / LIVE).exists():
        raise InputError("already holds a run", field="out", value=str(out), accepted="a new folder")
    try:
        (out / "evidence" / "logs").mkdir(parents=True, exist_ok=True)
        (out / LIVE).mkdir()
    except OSError as error:
        raise InputError(
            f"the run folder cannot be made ({error.strerror})", field="out", value=str(out)
        ) from error
    return out


def _prepare(
    job: RunJob,
    orders: Orders,
    bodies: Mapping[int, bytes],
    observed: Mapping[str, Any],
    ceiling: Sequence[Mapping[str, Any]] | None,
) -> LiveStore:
    """Everything the workers need, and everything that is known already, on disk before the first query."""
    live, evidence = job.out / LIVE, job.out / "evidence"
    started_utc = utc_now()
    phases = [live_phase(name, job.plans[name]) for name in job.phases]
    attempts = record_attempt(
        job.workspace,
        run_id=run_id(job, started_utc),
        scenario_digest=job.scenario.digest,
        mode=job.mode,
        utc=started_utc,
    )
    facts = run_facts(
        job,
        started_utc=started_utc,
        attempts=attempts,
        requests=_requests(job, bodies, phases),
        observed=observed,
    )
    try:
        write_json(live / FACTS, facts)
        write_json(live / "environment.json", environment())
        (job.out / "scenario.toml").write_bytes(job.scenario_source)
        if job.references is not None:
            (evidence / "references.jsonl").write_bytes(job.references)
        write_table(job.library.to_table(), evidence / "samples.parquet")
        write_bodies(live, bodies)
        orders.write(live)
        return create_store(
            live,
            phases,
            workers=job.scenario.settings.workers,
            dialect=job.sut.dialect,
            stream=job.sut.stream,
            repetition=job.repetition,
            common={"host": hashed_host(), "isolation": "network"},
            ceilings=ceiling,
        )
    except DiskFullError as error:
        raise InputError(
            str(error), field="out", value=str(job.out), accepted="a disk with more space"
        ) from error


def _requests(job: RunJob, bodies: Mapping[int, bytes], phases: Sequence[LivePhase]) -> dict[str, Any]:
    """The digest of what is sent, and everything an audit needs to render it again."""
    planned = np.concatenate([p.sample_index for p in phases])
    return {
        "sha256": requests_sha256(bodies, planned),
        "count": len(planned),
        "model": job.sut.model,
        "stream": job.sut.stream,
        "extra": dict(job.sut.extra),
    }


def _drive(
    job: RunJob,
    store: LiveStore,
    heads: Sequence[bytes],
    lock: int,
    journal: Journal,
    progress: Report,
    stop: StopSignal,
) -> str | None:
    """Take the workers through the phases; returns the detail of a bad end."""
    progress(Progress("start"))
    with Crew(store, heads, job.out / "evidence" / "logs", lock) as crew:
        for number, name in enumerate(job.phases):
            watch = _Watch(job, store, crew, number, progress, stop)
            journal.append("phase", phase=name)
            if not crew.drive(number, watch):
                break
    journal.append("driven", stop_reason=crew.control.stop_reason or "complete", detail=crew.detail)
    return crew.detail


class _Watch:
    """What the coordinator does while a phase runs: pass on the wish to stop, flush, show progress."""

    def __init__(
        self, job: RunJob, store: LiveStore, crew: Crew, number: int, progress: Report, stop: StopSignal
    ) -> None:
        self._job = job
        self._crew = crew
        self._number = number
        self._planned = store.phases[number].samples
        self._progress = progress
        self._stop = stop
        self._flushed = False

    def __call__(self) -> None:
        control = self._crew.control
        if self._stop.level and self._stop.reason is not None:
            control.request_stop(self._stop.level, self._stop.reason)
        if control.released <= self._number:
            return
        if not self._flushed and all(w.sent_all(self._number) for w in control.workers):
            self._job.sut.flush()
            self._flushed = True
        issued, completed, failed = map(sum, zip(*(w.counts for w in control.workers), strict=True))
        elapsed_s = max(0.0, (monotonic_ns() - control.epoch_ns(self._number)) / 1e9)
        phase = self._job.phases[self._number]
        self._progress(Progress(phase, issued, completed, failed, self._planned, elapsed_s))
