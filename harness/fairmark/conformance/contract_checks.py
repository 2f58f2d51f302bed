"""What the sink saw: one check for each way to break the plugin contract."""

from __future__ import annotations

from typing import Final

from fairmark.conformance.check import Check, Finding, failed, irrelevant, passed
from fairmark.conformance.subject import Subject

__all__ = ["CHECKS"]

_BREACHES: Final = {
    "no_end": (
        "ends-every-query",
        "queries without an end",
        "end every query with Done or Failed, on every path",
    ),
    "ended_twice": (
        "ends-once",
        "a query that counts twice",
        "end every query exactly once: nothing may follow Done or Failed",
    ),
    "after_end": (
        "quiet-after-end",
        "tokens after the end, which are in no count",
        "report Done after the last chunk, not before",
    ),
    "unknown_seq": (
        "known-queries",
        "answers to nobody's question",
        "report under the query's seq, or the position in the batch, that was handed over",
    ),
    "not_issued": (
        "issued-first",
        "answers to questions that were not asked yet",
        "report queries only after issue() has handed them over",
    ),
    "wrong_type": (
        "events-only",
        "output that cannot be counted",
        "yield Chunk, Done or Failed, with fields of the types that their docstrings say",
    ),
    "unknown_failure": (
        "failure-kinds",
        "failures that cannot be told apart",
        "use a kind from the list in the plugin guide; what is special goes into detail",
    ),
}
"""Kind of breach -> id, guards, fix."""


def _check(kind: str) -> Check:
    name, guards, fix = _BREACHES[kind]

    def judge(subject: Subject) -> Finding:
        runs = subject.ordinary
        if all(run.breaches is None for run in runs):
            return irrelevant("the events are the driver's own")
        count = sum((run.breaches or {}).get(kind, 0) for run in runs)
        if count:
            first = next(run.first_breaches[kind] for run in runs if kind in run.first_breaches)
            return failed(f"{count} times, first {first}")
        return passed(f"none in {sum(len(run.queries) for run in runs)} queries")

    return Check(name, guards, fix, judge, ("in_process",))


CHECKS: Final = tuple(_check(kind) for kind in _BREACHES)
