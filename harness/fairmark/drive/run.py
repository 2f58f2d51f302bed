"""The coordinator: prepares a run, lets the workers drive it, and seals what they stamped."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from time import monotonic_ns

from fairmark.drive.crew import Crew
from fairmark.drive.folder import make_folder
from fairmark.drive.job import Job, Progress, Report, RunJob
from fairmark.drive.prepare import make_ready, prepare_store
from fairmark.drive.stop import StopSignal
from fairmark.drive.telemetry import Telemetry
from fairmark.evidence.closing import FACTS, close_run
from fairmark.evidence.columns import Phase
from fairmark.evidence.environment import environment
from fairmark.evidence.journal import Journal
from fairmark.evidence.json_file import read_json
from fairmark.evidence.live import LIVE, LiveStore
from fairmark.evidence.recover import LOCK
from fairmark.sut.asking import endpoints_of

__all__ = ["drive_phases", "execute"]


def execute(job: RunJob, *, progress: Report, stop: StopSignal) -> Path:
    """Drive a run and leave its folder with sealed evidence and the facts of ``run.json``.

    A run that ends badly is closed all the same: ``outcome.stop_reason`` says how it ended. The SUT is
    closed in every case; after a run before its logs are sealed, so that they are whole.

    Returns:
        ``job.out``.

    Raises:
        InputError: the run cannot be prepared from what the user gave; nothing was driven.
        SutError: the endpoint does not answer a first request.
        EvidenceError: there was no space to seal what was driven; it can be recovered.
    """
    with ExitStack() as ending:
        ending.callback(job.sut.close)
        ready = make_ready(job, progress)
        folder = make_folder(job.out)
        with (folder / LIVE / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            store = prepare_store(job, ready)
            crew = Crew(store, ready.heads, folder / "evidence" / "logs", lock.fileno())
            profiler = job.sut.profile() if job.mode == "profile" else nullcontext()
            with profiler, Telemetry(endpoints_of(job.sut), folder / LIVE) as telemetry:
                detail = drive_phases(job, store, crew, progress, stop, flush=job.sut.flush)
            Journal(folder / "evidence" / "journal.jsonl").append("telemetry", servers=telemetry.summary)
            progress(Progress("seal"))
            try:
                ending.close()
            finally:
                close_run(folder, detail=detail, after=environment())
    return folder


def drive_phases(
    job: Job, store: LiveStore, crew: Crew, progress: Report, stop: StopSignal, *, flush: Callable[[], None]
) -> str | None:
    """Take the workers through the phases.

    Args:
        crew: not entered yet.
        flush: called once per phase, when its last query has been issued.

    Returns:
        The detail of a bad end.
    """
    journal = Journal(job.out / "evidence" / "journal.jsonl")
    journal.append("started", run_id=read_json(store.folder / FACTS)["run_id"], phases=list(job.phases))
    progress(Progress("start"))
    with crew:
        for number, name in enumerate(job.phases):
            watch = _Watch(name, store, crew, number, progress, stop, flush)
            journal.append("phase", phase=name)
            if not crew.drive(number, watch):
                break
    # Why it ended is in the `sealed` line, derived from what the workers wrote.
    journal.append("driven", detail=crew.detail)
    return crew.detail


class _Watch:
    """What the coordinator does while a phase runs: pass on the wish to stop, flush, show progress."""

    def __init__(
        self,
        name: Phase,
        store: LiveStore,
        crew: Crew,
        number: int,
        progress: Report,
        stop: StopSignal,
        flush: Callable[[], None],
    ) -> None:
        self._name = name
        self._flush = flush
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
            self._flushed = True
            self._flush_sut()
        issued, completed, failed = map(sum, zip(*(w.counts for w in control.workers), strict=True))
        elapsed_s = max(0.0, (monotonic_ns() - control.epoch_ns(self._number)) / 1e9)
        self._progress(Progress(self._name, issued, completed, failed, self._planned, elapsed_s))

    def _flush_sut(self) -> None:
        try:
            self._flush()
        except Exception as error:  # noqa: BLE001  # a plugin's failure ends its run, with the evidence kept
            self._crew.detail = f"flush failed: {type(error).__name__}: {error}"
            self._crew.control.request_stop(1, "sut_failed")
