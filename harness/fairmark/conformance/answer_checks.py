"""What the answers show: that there are any, in time, whole, alike, and each to its own question."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Final

from fairmark.conformance.check import Check, Finding, cannot, failed, irrelevant, passed
from fairmark.conformance.exercise import Exercise, Query
from fairmark.conformance.questions import TOKENS
from fairmark.conformance.subject import IN_FLIGHT, Subject

__all__ = ["CHECKS"]

_LATE: Final = frozenset({"timeout", "stalled"})
_OTHERS: Final = _LATE | {"empty", "aborted"}
"""Failures that have a check of their own."""

_BROKEN: Final = {"truncated": ("no_end",), "malformed": ("wrong_type", "unknown_failure")}
"""Failures that a breach of the contract explains, which has a check of its own."""

_FAILED_REASONS: Final = frozenset(
    {"error", "abort", "aborted", "cancelled", "canceled", "timeout", "failed"}
)
_CLEARLY: Final = 0.1
"""How much more an answer must be like another question's to be taken for it."""


def _answers(subject: Subject) -> Finding:
    run = subject.alone
    kinds = [kind for kind in run.failures if kind not in _OTHERS and not _explained(run, kind)]
    if kinds:
        count = sum(run.failures[kind] for kind in kinds)
        return failed(f"{count} of {len(run.queries)} queries failed, first {run.first_failure(kinds)}")
    if not run.successes:
        return cannot("no query was answered, for a reason that another check gives")
    return passed(f"{len(run.successes)} of {len(run.queries)} queries were answered")


def _explained(run: Exercise, kind: str) -> bool:
    return any((run.breaches or {}).get(breach) for breach in _BROKEN.get(kind, ()))


def _in_time(subject: Subject) -> Finding:
    for run in subject.ordinary:
        late = [kind for kind in run.failures if kind in _LATE]
        if late:
            return failed(f"in the run {run.name}: {run.first_failure(late)}")
    slowest = max((q.row["completed_ns"] - q.row["issued_ns"] for q in subject.alone.successes), default=None)
    if slowest is None:
        return cannot("no query was answered")
    return passed(f"the slowest answer took {slowest / 1e9:.3f} s")


def _not_empty(subject: Subject) -> Finding:
    empty = subject.alone.failures.get("empty", 0)
    if empty:
        return failed(f"{empty} of {len(subject.alone.queries)} answers were empty")
    return _of(subject.alone, "no answer was empty")


def _ends_well(subject: Subject) -> Finding:
    runs: Sequence[Exercise] = (*subject.ordinary, subject.short)
    if subject.stops:
        runs = (*runs, subject.stopped)
    for run in runs:
        if not run.ended_well:
            return failed(f"the run {run.name} ended as {run.stop_reason}: {run.detail or 'no detail'}")
    return passed(f"{len(runs)} runs came to their end")


def _failure_shown(subject: Subject) -> Finding:
    for run in subject.ordinary:
        for query in run.successes:
            reason = query.row["finish_reason"]
            if reason is not None and reason.lower() in _FAILED_REASONS:
                return failed(f"{query.name} of {run.name} is Done with the reason {reason!r}")
    return _of(subject.alone, "no success has a failure's reason")


def _finish_reason(subject: Subject) -> Finding:
    if subject.kind == "sim":
        return irrelevant("simulated answers have no text to end")
    limits = ((subject.alone, TOKENS), (subject.short, 1))
    for run, limit in limits:
        for query in run.successes:
            reason, tokens = query.row["finish_reason"], query.row["output_tokens"]
            if not reason:
                return failed(f"{query.name} of {run.name} has no finish reason")
            if reason == "length" and tokens is not None and tokens < limit:
                return failed(
                    f"{query.name} of {run.name} ended for its length at {tokens} of {limit} tokens"
                )
    longer = {q.sample for q in subject.alone.successes if (q.row["output_tokens"] or 0) > 1}
    cut = [q for q in subject.short.successes if q.sample in longer and q.row["output_tokens"] == 1]
    lies = [q for q in cut if q.row["finish_reason"] == "stop"]
    if cut and len(lies) == len(cut):
        return failed(
            f"all {len(cut)} answers that were cut at one token say that they stopped by themselves"
        )
    return _of(subject.alone, "every success has a finish reason that fits its length")


def _stop(subject: Subject) -> Finding:
    if not subject.alone.successes:
        return cannot("no query was answered")
    if not subject.takes_stops:
        return irrelevant("its API has no stop sequences")
    if not subject.stops:
        return irrelevant("its answers are too short to be stopped in the middle")
    if not subject.stopped.successes:
        return cannot(f"no query with stop sequences was answered: {dict(subject.stopped.failures)}")
    for query in subject.stopped.successes:
        for stop in subject.stops:
            _, found, rest = query.text.partition(stop)
            if found and rest.strip():
                return failed(f"{query.name} goes on after {stop!r}: {rest[:40]!r}")
    return passed(f"no answer goes on after one of {', '.join(map(repr, subject.stops))}")


def _alike(subject: Subject) -> Finding:
    answers = _by_question(subject.alone.successes)
    pairs = [found for found in answers.values() if len(found) > 1]
    if subject.kind == "sim":
        return irrelevant("simulated answers have no text")
    if not pairs:
        return cannot("no question was answered twice")
    differing = [found for found in pairs if len({q.answer for q in found}) > 1]
    if differing:
        return failed(
            f"{len(differing)} of {len(pairs)} questions have two answers at temperature 0, such as "
            f"{_excerpt(differing[0][0])} and {_excerpt(differing[0][1])}"
        )
    return passed(f"{len(pairs)} questions, each with the same answer twice")


def _own(subject: Subject) -> Finding:
    if subject.kind == "sim":
        return irrelevant("simulated answers have no text")
    own = _expected(subject)
    if isinstance(own, Finding):
        return own
    for run in (subject.crowd, subject.together):
        for query in run.successes:
            other = _taken_for(query, own)
            if other is not None:
                return failed(
                    f"{query.name} of {run.name} asked question {query.sample} and got the answer to "
                    f"{other}: {_excerpt(query)}"
                )
    answered = len(subject.crowd.successes) + len(subject.together.successes)
    if not answered:
        return cannot("no query was answered while others were in flight")
    return passed(f"{answered} answers are most like those to the same questions asked alone")


def _expected(subject: Subject) -> dict[int, str | bytes] | Finding:
    """The answer to each question asked alone, if the answers can be told apart."""
    answers = _by_question(subject.alone.successes)
    own = {sample: found[0].answer for sample, found in answers.items()}
    if len(own) < 2:
        return cannot("fewer than two questions were answered alone")
    if len(set(own.values())) < len(own):
        return cannot("different questions have the same answer, so that a mix-up would not show")
    if any(len({q.answer for q in found}) > 1 for found in answers.values()):
        return cannot("the same question has different answers, so that a mix-up would not show")
    return own


def _taken_for(query: Query, own: Mapping[int, str | bytes]) -> int | None:
    """The question, other than its own, whose answer ``query`` clearly got."""
    if query.sample not in own or query.answer == own[query.sample]:
        return None
    mine = _likeness(query.answer, own[query.sample])
    best, other = max((_likeness(query.answer, text), n) for n, text in own.items() if n != query.sample)
    return other if best > mine + _CLEARLY else None


def _likeness(one: str | bytes, other: str | bytes) -> float:
    if isinstance(one, bytes) or isinstance(other, bytes):
        return float(one == other)
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _holds(subject: Subject) -> Finding:
    alone = set(subject.alone.failures)
    if not subject.alone.successes:
        return cannot("no query was answered even alone")
    for run in (subject.crowd, subject.together):
        new = [k for k in run.failures if k not in alone | _LATE | {"aborted"} and not _explained(run, k)]
        if new:
            count = sum(run.failures[kind] for kind in new)
            return failed(
                f"{count} of {len(run.queries)} queries of {run.name} failed, {run.first_failure(new)}"
            )
    return passed(f"{IN_FLIGHT} in flight, and all at once, fail no more than one at a time")


def _by_question(queries: Sequence[Query]) -> dict[int, list[Query]]:
    found: dict[int, list[Query]] = {}
    for query in queries:
        found.setdefault(query.sample, []).append(query)
    return found


def _excerpt(query: Query) -> str:
    return repr(query.answer[:60])


def _of(run: Exercise, found: str) -> Finding:
    """A pass that rests on answers, if there are any."""
    return passed(found) if run.successes else cannot("no query was answered")


CHECKS: Final = (
    Check(
        "answers",
        "a system that fails on plain questions",
        "see failure_detail; an exception in generate is an engine_error",
        _answers,
    ),
    Check(
        "in-time",
        "queries that never end",
        "bound every wait on the engine, and yield Failed when it is over; slow engines: --patience-s",
        _in_time,
    ),
    Check(
        "not-empty",
        "answers without a token that look like fast ones",
        "give every token as a Chunk or in Done; report Failed where the engine gave nothing",
        _not_empty,
    ),
    Check(
        "ends-well",
        "a worker that dies or hangs with its run",
        "see the log of the worker; never call exit, and keep crashes of the engine in a child process",
        _ends_well,
    ),
    Check(
        "failure-shown",
        "a failure that counts as a success",
        "yield Failed, not Done, when the engine says that it failed or was cancelled",
        _failure_shown,
    ),
    Check(
        "finish-reason",
        "answers that were cut and look complete",
        "pass the engine's own reason on: length where the limit ended it, stop where the model did",
        _finish_reason,
    ),
    Check(
        "stop-sequences",
        "more tokens than were asked for",
        "pass sample.generation.stop on to the engine",
        _stop,
    ),
    Check(
        "same-answers",
        "answers that cannot be reproduced",
        "pass sample.generation.temperature and seed on; 0 means greedy",
        _alike,
    ),
    Check(
        "own-answers",
        "answers that belong to another question",
        "keep what belongs to a query in local variables; keep the order of a batch",
        _own,
    ),
    Check(
        "holds-concurrency",
        "a system that works for one user only",
        "set concurrency, max_batch or max_in_flight to what the engine stands, or lock what it does not",
        _holds,
    ),
)
