"""Did the run end as its record says? Stop reasons and the steadiness of the warm-up, from the stamps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import median
from typing import Any, Final

import numpy as np

from fairmark.audit.problems import Problems
from fairmark.audit.subject import Subject
from fairmark.bundle.run_folder import RECORD
from fairmark.evidence.outcome import ENDS_OF_WARMUP
from fairmark.measure.arrow import Int64s, int64s, kinds, marked, present
from fairmark.measure.phase import Phase, of_phase, read_phase
from fairmark.measure.terms import Terms, read_terms
from fairmark.traffic.settings import DEFAULT_QPS, min_queries_of_equal_issue

__all__ = ["check_outcome", "ends_steady"]

_RERUN: Final = "run the scenario again with an unmodified fairmark"
_BLOCK: Final = 16
_STEADY: Final = 0.1
"""The rule of `fairmark.scenario.model.Warmup`, written down a second time so that it is derived twice."""


def check_outcome(subject: Subject, problems: Problems) -> None:
    """Hold the outcome of the record to plan, stamps and failures.

    Only claims that a run ended well are checked: no rule passes a run for having been cut short.
    """
    for message in _contradictions(subject):
        problems.error("audit.outcome", RECORD, f"outcome: {message}", _RERUN)


def _contradictions(subject: Subject) -> Iterator[str]:
    outcome = subject.record["outcome"]
    terms = read_terms(subject.scenario.document, rows=len(subject.library))
    yield from _as_a_whole(subject, outcome)
    before_ns: int | None = None
    for entry in outcome["phases"]:
        phase = read_phase(subject.evidence.queries, entry["phase"])
        yield from _times(entry, phase, before_ns)
        before_ns = entry["ended_ns"]
        if entry["stop_reason"] == "complete" and entry["phase"] != "warmup":
            yield from _completeness(subject, terms, entry, phase)
        if entry["stop_reason"] == "steady":
            yield from _steadiness(subject, terms, entry, phase)


def _as_a_whole(subject: Subject, outcome: Mapping[str, Any]) -> Iterator[str]:
    """A run that is complete went through every planned phase, and each of them ended well."""
    if outcome["stop_reason"] != "complete":
        return
    ended = {entry["phase"]: entry["stop_reason"] for entry in outcome["phases"]}
    for name in dict.fromkeys(subject.evidence.plan["phase"].to_pylist()):
        reason = ended.get(name)
        if reason not in (ENDS_OF_WARMUP if name == "warmup" else {"complete"}):
            how = "never began" if reason is None else f"ended with {reason}"
            yield f"the run is called complete, but {name} {how}"


def _times(entry: Mapping[str, Any], phase: Phase, before_ns: int | None) -> Iterator[str]:
    name, started_ns, ended_ns = entry["phase"], entry["started_ns"], entry["ended_ns"]
    if before_ns is not None and started_ns < before_ns:
        yield f"{name} started before the phase before it had ended"
    if len(phase) and phase.issued.min() < started_ns:
        yield f"{name} issued a query before it started"
    if ended_ns is None:
        return
    if not present(phase.completed).all():
        yield f"{name} ended, but a query of it never did"
    if len(phase) and phase.done.max() > ended_ns:
        yield f"{name} ended before its last query"


def _completeness(subject: Subject, terms: Terms, entry: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    """A phase that is complete issued its plan, or what its floors ask for, and waited for every answer."""
    name = entry["phase"]
    planned = len(of_phase(subject.evidence.plan, name))
    if name == "accuracy" or terms.kind in ("Server", "Offline"):
        if len(phase) < planned:
            yield f"{name} is called complete with {len(phase)} of {planned} samples issued"
    else:
        queries = len(np.unique(phase.query))
        least = _least_queries(subject, terms, name)
        if queries < least:
            yield f"{name} is called complete with {queries} of at least {least} queries"
        if len(phase) and int(phase.issued.max()) - entry["started_ns"] < terms.min_duration_ns:
            yield f"{name} is called complete before its shortest duration"
    given_up = int(np.count_nonzero(kinds(phase.table, "failure", "aborted")))
    # Where there is a wire only the driver aborts; a plugin may use the word for itself.
    if given_up and subject.record["requests"] is not None:
        yield f"{name} is called complete, but {given_up} of its queries were given up"


def _least_queries(subject: Subject, terms: Terms, name: str) -> int:
    """The floor of a closed loop: equal issue raises it to whole sets, unique sampling to the whole plan."""
    if terms.sampling == "unique":
        planned = len(np.unique(int64s(of_phase(subject.evidence.plan, name), "query")))
        return max(terms.min_query_count, planned)
    rows = terms.performance_sample_count
    if terms.sampling != "equal" or terms.kind == "MultiStream" or rows is None:
        return terms.min_query_count
    return min_queries_of_equal_issue(
        terms.min_query_count,
        min_duration_ns=terms.min_duration_ns,
        expected_qps=DEFAULT_QPS[terms.kind] if terms.target_qps is None else terms.target_qps,
        performance_sample_count=rows,
    )


def _steadiness(subject: Subject, terms: Terms, entry: Mapping[str, Any], phase: Phase) -> Iterator[str]:
    warmup = subject.scenario.warmup
    shortest_ns = entry["started_ns"] + round(warmup.min_duration_s * 1e9)
    workers = terms.workers
    for worker in range(workers):
        ended_ns, service_ns = _units(phase, terms, phase.worker == worker)
        least = (warmup.queries - worker + workers - 1) // workers
        block = max(1, (_BLOCK - worker + workers - 1) // workers)
        if not ends_steady(ended_ns, service_ns, at_least=least, shortest_ns=shortest_ns, block=block):
            yield f"the warm-up is called steady; the service times of worker {worker} never were"


def _units(phase: Phase, terms: Terms, mine: Any) -> tuple[Int64s, Int64s]:
    """End and service time of what the warm-up counts: samples in Offline, queries elsewhere."""
    ended = mine & marked(phase.table, "completed_ns")
    unit = phase.seq[ended] if terms.kind == "Offline" else phase.query[ended]
    done = phase.completed[ended]
    took = done - np.where(present(phase.sent[ended]), phase.sent[ended], done)
    if not len(unit):
        return done, took
    order = np.argsort(unit, kind="stable")
    starts = np.flatnonzero(np.diff(unit[order], prepend=unit.min() - 1))
    ends: Int64s = np.maximum.reduceat(done[order], starts)
    longest: Int64s = np.maximum.reduceat(took[order], starts)
    by_time = np.argsort(ends, kind="stable")
    return ends[by_time], longest[by_time]


def ends_steady(ended_ns: Int64s, service_ns: Int64s, *, at_least: int, shortest_ns: int, block: int) -> bool:
    """Whether a warm-up could end steady: at some completion, no earlier than the ``at_least``-th and no
    earlier than ``shortest_ns``, the medians of the last two blocks differ by less than 10 %.

    Args:
        ended_ns, service_ns: int64[completions], in the order they ended.
    """
    times = service_ns.tolist()
    for count in range(max(at_least, 2 * block), len(times) + 1):
        if ended_ns[count - 1] < shortest_ns:
            continue
        earlier = median(times[count - 2 * block : count - block])
        if abs(median(times[count - block : count]) - earlier) < _STEADY * earlier:
            return True
    return False
