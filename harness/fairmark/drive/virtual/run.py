"""A run on the virtual clock, from a job to a folder with sealed evidence."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fairmark.drive.facts import job_facts
from fairmark.drive.folder import begin, make_folder, write_given
from fairmark.drive.job import Progress, Report, VirtualJob
from fairmark.drive.orders import make_policy
from fairmark.drive.phase import Share
from fairmark.drive.stop import StopSignal
from fairmark.drive.traffic import live_phase, phase_orders, slots
from fairmark.drive.virtual.phase import Patience, PhaseEnd, VirtualPhase, World, ask
from fairmark.drive.virtual.recorder import Recorder
from fairmark.drive.virtual.tables import write_evidence
from fairmark.drive.worker import FATAL
from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.closing import write_record
from fairmark.evidence.control import STOP_REASONS
from fairmark.evidence.environment import environment
from fairmark.evidence.journal import Journal
from fairmark.evidence.live import LIVE, LivePhase
from fairmark.evidence.store import NO_SPACE
from fairmark.sut.asking import claims_of
from fairmark.traffic.seeds import derive_seed

__all__ = ["execute_virtual", "simulation_seed"]

_WHOLE_QUERY: Final = 1 << 62
"""A simulated system takes the one Offline query whole."""


def execute_virtual(job: VirtualJob, *, progress: Report, stop: StopSignal) -> Path:
    """Drive a run in virtual time and leave its folder as `fairmark.drive.run.execute` does.

    The phases follow one another without a pause. Two runs of a job leave equal tables, byte for byte. The
    SUT is closed in every case.

    Returns:
        ``job.out``.

    Raises:
        InputError: the run cannot be made from what the user gave; nothing was driven.
        SutError: the system cannot set up its simulation.
        EvidenceError: there was no space for the evidence.
    """
    with ExitStack() as ending:
        ending.callback(job.sut.close)
        _check_workers(job)
        drive = _Drive(job, progress, stop)
        folder = make_folder(job.out)
        try:
            before = environment()
            facts = _prepare(job, folder)
            drive.through_phases(Journal(folder / "evidence" / "journal.jsonl"))
            progress(Progress("seal"))
            try:
                ending.close()
            finally:
                _seal(job, drive, facts, before)
        except OSError as error:
            if error.errno not in NO_SPACE:
                raise
            raise EvidenceError(f"{folder}: no space for the evidence; free some and run again") from error
    return folder


def simulation_seed(job: VirtualJob) -> int:
    """The seed of a job's simulation, derived like those of its traffic: fresh in every repetition."""
    return derive_seed("simulation", job.scenario.seeds.schedule, job.repetition, job.nonce, None)


def _seal(job: VirtualJob, drive: _Drive, facts: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    evidence, recorder = job.out / "evidence", drive.world.recorder
    write_evidence(evidence, drive.phases, drive.epochs_ns, recorder, repetition=job.repetition)
    write_record(job.out, facts, outcome=drive.outcome(), before=before, after=environment())
    (job.out / LIVE).rmdir()


def _check_workers(job: VirtualJob) -> None:
    scenario = job.scenario
    if scenario.settings.workers != 1:
        raise InputError(
            "the virtual clock has one worker",
            source=scenario.source,
            field="settings.workers",
            value=scenario.settings.workers,
            accepted="1",
        )


def _prepare(job: VirtualJob, folder: Path) -> dict[str, Any]:
    """Write what is known before the first query; returns the facts of the record."""
    started_utc, attempts = begin(job)
    write_given(job)
    sut = {
        "shape": "sim",
        "isolation": "in_process",
        "dialect": None,
        "claims": claims_of(job.sut),
        "observed": {},
        "simulation_seed": str(simulation_seed(job)),
    }
    return job_facts(job, started_utc=started_utc, attempts=attempts, clock="virtual", requests=None, sut=sut)


@dataclass(frozen=True, slots=True)
class _Driven:
    name: str
    issued: int
    completed: int
    started_ns: int
    end: PhaseEnd


class _Drive:
    """The run through its phases.

    Attributes:
        epochs_ns: when each phase that began did, from the start of the run.
    """

    def __init__(self, job: VirtualJob, progress: Report, stop: StopSignal) -> None:
        self._job = job
        self._at_once = slots(job, _WHOLE_QUERY)
        self._progress = progress
        self._stop = stop
        self._done: list[_Driven] = []
        self.phases = [live_phase(name, job.plans[name]) for name in job.phases]
        self.epochs_ns: dict[str, int] = {}
        wanted = np.unique(np.concatenate([phase.sample_index for phase in self.phases]))
        self.world = World(
            simulation=ask(job.sut.simulation, simulation_seed(job)),
            recorder=Recorder(sum(phase.samples for phase in self.phases)),
            samples={index: job.library.sample(index) for index in wanted.tolist()},
            given_up=set(),
            flush=job.sut.flush,
        )

    def through_phases(self, journal: Journal) -> None:
        """Drive them one after the other, until one ends the run."""
        journal.append("started", phases=list(self._job.phases))
        now_ns = first_seq = 0
        for phase in self.phases:
            journal.append("phase", phase=phase.name)
            self.epochs_ns[phase.name] = now_ns
            end = self._drive(phase, first_seq, now_ns)
            now_ns = end.ended_ns
            first_seq += phase.samples
            if self._stop.level or end.reason in FATAL:
                break
        outcome = self.outcome()
        journal.append("driven", stop_reason=outcome["stop_reason"], detail=outcome["detail"])

    def _drive(self, phase: LivePhase, first_seq: int, epoch_ns: int) -> PhaseEnd:
        job = self._job
        part = Share.of(phase, first_seq, worker=0, workers=1)
        orders = phase_orders(job, phase.name, self._at_once)
        driver = VirtualPhase(
            self.world,
            part,
            make_policy(orders, part.units, part.due_ns, 0, 1),
            phase.sample_index.tolist(),
            Patience(
                round(job.scenario.run.query_timeout_s * 1e9), round(job.scenario.run.drain_timeout_s * 1e9)
            ),
            self._stop,
        )
        end = driver.run(epoch_ns, lambda at: self._show(phase, epoch_ns, at))
        self._done.append(_Driven(phase.name, driver.issued, driver.completed, epoch_ns, end))
        return end

    def _show(self, phase: LivePhase, epoch_ns: int, at: VirtualPhase) -> None:
        elapsed_s = (at.now_ns - epoch_ns) / 1e9
        self._progress(Progress(phase.name, at.issued, at.completed, at.failed, phase.samples, elapsed_s))

    def outcome(self) -> dict[str, Any]:
        """The part ``outcome`` of the record, by the rules of `fairmark.evidence.outcome`."""
        epoch_ns = self.epochs_ns.get("performance", self._done[-1].started_ns)
        phases = [
            {
                "phase": driven.name,
                "issued": driven.issued,
                "completed": driven.completed,
                "started_ns": driven.started_ns - epoch_ns,
                "ended_ns": driven.end.ended_ns - epoch_ns,
                "stop_reason": driven.end.reason,
            }
            for driven in self._done
        ]
        grave = [d.end.reason for d in self._done if d.name != "warmup" or d.end.reason in FATAL]
        return {
            "stop_reason": max([*grave, "complete"], key=STOP_REASONS.index),
            "detail": next((d.end.detail for d in self._done if d.end.detail), None),
            "phases": phases,
        }
