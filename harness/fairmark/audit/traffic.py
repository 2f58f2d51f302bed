"""Was the traffic the one that scenario and seeds demand? Drawn again, compared with plan and delivery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairmark.audit.problems import Problems
from fairmark.audit.subject import Subject
from fairmark.bundle.run_folder import RECORD
from fairmark.errors import InputError
from fairmark.measure.arrow import ABSENT, int64s, kinds, select
from fairmark.measure.delivery import share_of
from fairmark.measure.phase import of_phase
from fairmark.traffic.plan import Plan, plan_sha256, run_plan
from fairmark.traffic.recorded import arrivals_sha256, read_arrivals, recording_of
from fairmark.traffic.settings import traffic_settings
from fairmark.traffic.warmup import warmup_plan

__all__ = ["check_traffic"]

ARRIVALS: Final = "evidence/arrivals.txt"
PLAN: Final = "evidence/plan.parquet"
QUERIES: Final = "evidence/queries.parquet"

_RERUN: Final = "run the scenario again with an unmodified fairmark"

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Demanded:
    """What the plan table must hold, row by row; null scheduled times are `ABSENT`."""

    phase: list[str]
    seq: Int64s
    query: Int64s
    sample_index: Int64s
    scheduled_ns: Int64s


def check_traffic(subject: Subject, problems: Problems) -> None:
    """Re-draw every phase from the seeds; hold the stored plan and the delivered queries to it."""
    plans = _redrawn(subject, problems)
    if plans is not None:
        _check_record(subject.record["plan"], subject, plans, problems)
        _check_table(subject.evidence.plan, _demanded(plans), problems)
    _check_delivery(subject, problems)


def _redrawn(subject: Subject, problems: Problems) -> dict[str, Plan] | None:
    scenario, recorded = subject.scenario, subject.record["plan"]
    fault = _fault_of_recording(subject)
    if fault is not None:
        problems.error("audit.arrivals", ARRIVALS, fault, _RERUN)
        return None
    drawn = {
        "repetition": recorded["repetition"],
        "nonce": recorded["nonce"],
        "recording": subject.folder / ARRIVALS,
    }
    rows = len(subject.library)
    plans: dict[str, Plan] = {}
    try:
        for phase in recorded["phases"]:
            name = phase["phase"]
            if name == "warmup":
                plans[name] = warmup_plan(scenario, rows, **drawn)
            else:
                plans[name] = run_plan(traffic_settings(scenario, name, rows, **drawn))
    except InputError as error:
        problems.error("audit.plan", RECORD, f"the plan cannot be drawn again: {error}", _RERUN)
        return None
    return plans


def _fault_of_recording(subject: Subject) -> str | None:
    """Why the run's copy of the recorded arrivals is not the one that the scenario pins."""
    named, path = recording_of(subject.scenario) is not None, subject.folder / ARRIVALS
    if named != path.is_file():
        what = "recording of arrivals"
        return (
            f"is missing although the scenario names a {what}"
            if named
            else f"is there, but the scenario names no {what}"
        )
    if not named:
        return None
    try:
        digest = arrivals_sha256(read_arrivals(path))
    except InputError as error:
        return str(error).replace(f"{subject.folder}/", "")
    pin = subject.scenario.arrivals.sha256
    return None if digest == pin else f"has the digest {digest}; the scenario pins {pin}"


def _check_record(
    recorded: Mapping[str, Any], subject: Subject, plans: Mapping[str, Plan], problems: Problems
) -> None:
    for phase in recorded["phases"]:
        plan = plans[phase["phase"]]
        _compare(problems, f"plan.{phase['phase']}.queries", phase["queries"], plan.query_count)
        _compare(problems, f"plan.{phase['phase']}.samples", phase["samples"], len(plan.sample_index))
        planned_ns = plan.generated_duration_ns
        _compare(problems, f"plan.{phase['phase']}.duration_ns", phase["duration_ns"], planned_ns)
        _compare(problems, f"plan.{phase['phase']}.sha256", phase.get("sha256"), plan_sha256(plan))
    if plans:
        last = list(plans.values())[-1]
        _compare(problems, "plan.sha256", recorded["sha256"], plan_sha256(last))
        _compare(problems, "plan.seeds", recorded["seeds"], _spelled(asdict(last.seeds)))
    _compare(problems, "plan.base_seeds", recorded["base_seeds"], _spelled(asdict(subject.scenario.seeds)))


def _spelled(seeds: Mapping[str, int]) -> dict[str, str]:
    return {name: str(seed) for name, seed in seeds.items()}


def _compare(problems: Problems, what: str, recorded: object, demanded: object) -> None:
    if recorded != demanded:
        problems.error("audit.plan", RECORD, f"{what} is {recorded!r}; the seeds give {demanded!r}", _RERUN)


def _demanded(plans: Mapping[str, Plan]) -> _Demanded:
    names: list[str] = []
    samples, queries, due = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    first_query = 0
    for name, plan in plans.items():
        sizes = np.diff(plan.query_offsets)
        names.extend([name] * len(plan.sample_index))
        samples.append(plan.sample_index)
        queries.append(np.repeat(np.arange(plan.query_count, dtype=np.int64), sizes) + first_query)
        due.append(np.repeat(_due_ns(plan), sizes))
        first_query += plan.query_count
    return _Demanded(
        phase=names,
        seq=np.arange(len(names), dtype=np.int64),
        query=np.concatenate(queries),
        sample_index=np.concatenate(samples),
        scheduled_ns=np.concatenate(due),
    )


def _due_ns(plan: Plan) -> Int64s:
    """When each query is due after its phase began: in Server as drawn, in Offline at once, else never."""
    kind = plan.settings.scenario
    if kind == "Offline":
        return np.zeros(plan.query_count, dtype=np.int64)
    if kind != "Server":
        return np.full(plan.query_count, ABSENT, dtype=np.int64)
    begins = np.cumsum([0, *(part.generated_duration_ns for part in plan.sets)])
    offsets = [
        np.full(part.end_query - part.first_query, begin, dtype=np.int64)
        for part, begin in zip(plan.sets, begins, strict=False)
    ]
    due: Int64s = plan.scheduled_ns + np.concatenate([np.empty(0, np.int64), *offsets])
    return due


def _check_table(stored: pa.Table, demanded: _Demanded, problems: Problems) -> None:
    if len(stored) != len(demanded.seq):
        problems.error(
            "audit.plan", PLAN, f"has {len(stored)} rows; the seeds give {len(demanded.seq)}", _RERUN
        )
        return
    columns = {
        name: int64s(stored, name) != getattr(demanded, name)
        for name in ("seq", "query", "sample_index", "scheduled_ns")
    }
    columns["phase"] = np.array(stored["phase"].to_pylist(), dtype=object) != np.array(
        demanded.phase, dtype=object
    )
    for name, wrong in columns.items():
        if wrong.any():
            problems.error(
                "audit.plan",
                PLAN,
                f"{name} is not what the seeds give in {int(wrong.sum())} rows, first {int(wrong.argmax())}",
                _RERUN,
            )


def _check_delivery(subject: Subject, problems: Problems) -> None:
    """Every issued sample is one of the plan, once, with the plan's content and time."""
    queries, plan = subject.evidence.queries, subject.evidence.plan
    seq, planned = int64s(queries, "seq"), int64s(plan, "seq")
    if len(np.unique(seq)) != len(seq):
        problems.error("audit.exactly-once", QUERIES, "a sample was recorded more than once", _RERUN)
        return
    if not np.array_equal(planned, np.arange(len(planned))):
        problems.error("audit.plan", PLAN, "seq does not count from 0", _RERUN)
        return
    outside = (seq < 0) | (seq >= len(planned))
    if outside.any():
        problems.error(
            "audit.delivery", QUERIES, f"seq {int(seq[outside][0])} is not a sample of the plan", _RERUN
        )
        return
    for name in ("query", "sample_index"):
        _same(name, int64s(queries, name), int64s(plan, name)[seq], seq, problems)
    phases = np.array(plan["phase"].to_pylist(), dtype=object)[seq]
    _same("phase", np.array(queries["phase"].to_pylist(), dtype=object), phases, seq, problems)
    repetition = np.full(len(seq), subject.record["plan"]["repetition"])
    _same("repetition", int64s(queries, "repetition"), repetition, seq, problems)
    _same("worker", int64s(queries, "worker"), _workers(subject)[seq], seq, problems)
    _check_times(subject, problems)
    _check_counts(subject, problems)


def _workers(subject: Subject) -> Int64s:
    """int64[planned samples]: the worker whose share each is."""
    workers = subject.scenario.settings.workers
    plan = subject.evidence.plan
    shares = [
        share_of(of_phase(plan, str(name)), workers, by_sample=subject.scenario.scenario == "Offline")
        for name in dict.fromkeys(plan["phase"].to_pylist())
    ]
    return np.concatenate([np.empty(0, np.int64), *shares])


def _same(name: str, found: Any, expected: Any, seq: Int64s, problems: Problems) -> None:
    wrong = found != expected
    if wrong.any():
        problems.error(
            "audit.delivery",
            QUERIES,
            f"{name} is not the plan's for {int(wrong.sum())} samples, first for seq {int(seq[wrong][0])}",
            _RERUN,
        )


def _check_times(subject: Subject, problems: Problems) -> None:
    """Scheduled times are the plan's, counted from when their phase began."""
    planned = int64s(subject.evidence.plan, "scheduled_ns")
    for phase in subject.record["outcome"]["phases"]:
        rows = select(subject.evidence.queries, kinds(subject.evidence.queries, "phase", phase["phase"]))
        seq, found = int64s(rows, "seq"), int64s(rows, "scheduled_ns")
        due = planned[seq]
        timed = due != ABSENT
        expected = np.where(timed, np.where(timed, due, 0) + phase["started_ns"], ABSENT)
        _same("scheduled_ns", found, expected, seq, problems)


def _check_counts(subject: Subject, problems: Problems) -> None:
    """What the outcome says was issued and completed is what the table holds."""
    queries = subject.evidence.queries
    phases = subject.record["outcome"]["phases"]
    for phase in phases:
        rows = select(queries, kinds(queries, "phase", phase["phase"]))
        found = {"issued": len(rows), "completed": rows["failure"].null_count}
        for name, number in found.items():
            if phase[name] != number:
                problems.error(
                    "audit.counts",
                    RECORD,
                    f"outcome says {phase[name]} {name} in {phase['phase']}; the evidence holds {number}",
                    _RERUN,
                )
    named = [phase["phase"] for phase in phases]
    unnamed = select(queries, ~kinds(queries, "phase", *named))
    if len(unnamed):
        problems.error(
            "audit.counts", RECORD, f"outcome leaves out {len(unnamed)} samples of the evidence", _RERUN
        )
