"""Are the recorded numbers and verdict what the evidence gives? Computed again, compared leaf by leaf."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairmark.audit.problems import Problems
from fairmark.audit.subject import Subject
from fairmark.bundle.run_folder import RECORD
from fairmark.errors import InputError
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure
from fairmark.measure.phase import read_phase
from fairmark.measure.programs import NOT_ALLOWED, Runner

__all__ = ["RELATIVE_TOLERANCE", "check_numbers", "differences"]

RELATIVE_TOLERANCE: Final = 1e-12
"""Floats may differ by this much, for sums that another build of numpy takes in another order."""

_LITTLE_TOLERANCE: Final = 1e-9
_MOST_SHOWN: Final = 20
_REMAKE: Final = "get the record as the run left it, and audit with the fairmark version that it names"


def check_numbers(subject: Subject, problems: Problems, run_program: Runner | None = None) -> dict[str, Any]:
    """Compute metrics and verdict again and compare them with the record.

    Returns:
        ``{"metrics": …, "verdict": …}`` as recomputed; without ``verdict`` when the ruleset is not at hand.
    """
    record = subject.record
    metrics = measure(subject.evidence, record, subject.references, run_program=run_program)
    if run_program is None:
        metrics = _with_scores_of_programs(record, metrics, problems)
    recomputed: dict[str, Any] = {"metrics": metrics}
    _report("metrics", record.get("metrics"), metrics, problems)
    _check_identities(subject, metrics, problems)
    recorded = record.get("verdict")
    if recorded is None:
        problems.error("audit.verdict", RECORD, "the run has no verdict", _REMAKE)
        return recomputed
    try:
        ruleset = load_ruleset(recorded["ruleset"])
    except InputError:
        problems.warning(
            "audit.ruleset",
            RECORD,
            f"the ruleset {recorded['ruleset']!r} is not one of fairmark's, and was not applied again",
            "judge with a shipped ruleset, or check with --ruleset and the folder of this one",
        )
        return recomputed
    if ruleset.sha256 != recorded["ruleset_sha256"]:
        problems.error(
            "audit.ruleset",
            RECORD,
            f"was judged by another version of {ruleset.id} ({recorded['ruleset_sha256'][:12]}…)",
            "audit with the fairmark version that made the run, or judge it again",
        )
        return recomputed
    recomputed["verdict"] = judge({**record, "metrics": metrics}, ruleset)
    _report("verdict", recorded, recomputed["verdict"], problems)
    return recomputed


def _with_scores_of_programs(
    record: Mapping[str, Any], metrics: Mapping[str, Any], problems: Problems
) -> dict[str, Any]:
    """Scores of answers that would have to be run are taken as recorded, which a warning says."""
    taken = dict(metrics)
    for name, phase in metrics.items():
        recorded = record.get("metrics", {}).get(name, {}).get("accuracy", {})
        if phase["accuracy"] == {"undefined": NOT_ALLOWED} and "score" in recorded:
            taken[name] = {**phase, "accuracy": recorded}
            problems.warning(
                "audit.not-executed",
                RECORD,
                f"the score of {name} is taken as recorded: the answers are programs, and were not run again",
                "audit with --allow-code-execution to run them",
            )
    return taken


def _report(what: str, recorded: Any, recomputed: Any, problems: Problems) -> None:
    for number, (path, found, expected) in enumerate(differences(recorded, recomputed, what)):
        if number == _MOST_SHOWN:
            problems.error(f"audit.{what}", RECORD, "and more differences like these", _REMAKE)
            return
        problems.error(
            f"audit.{what}",
            RECORD,
            f"{path} is {_short(found)}; the evidence gives {_short(expected)}",
            _REMAKE,
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def differences(recorded: Any, recomputed: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Every leaf in which two JSON values differ, as (path, recorded, recomputed).

    Numbers must have the same kind; integers must be equal, floats within `RELATIVE_TOLERANCE`.
    """
    if isinstance(recorded, Mapping) and isinstance(recomputed, Mapping):
        for key in [*recorded, *(key for key in recomputed if key not in recorded)]:
            yield from differences(recorded.get(key), recomputed.get(key), f"{path}.{key}")
    elif isinstance(recorded, list) and isinstance(recomputed, list) and len(recorded) == len(recomputed):
        for position, (one, other) in enumerate(zip(recorded, recomputed, strict=True)):
            yield from differences(one, other, f"{path}.{position}")
    elif not _equal(recorded, recomputed):
        yield path, recorded, recomputed


def _equal(recorded: Any, recomputed: Any) -> bool:
    if isinstance(recorded, float) and isinstance(recomputed, float):
        return math.isclose(recorded, recomputed, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0)
    return type(recorded) is type(recomputed) and bool(recorded == recomputed)


def _check_identities(subject: Subject, metrics: Mapping[str, Any], problems: Problems) -> None:
    """What must hold in any true log, whatever the system: stamps in order, and L = lambda * W."""
    for name, numbers in metrics.items():
        wrong = read_phase(subject.evidence.queries, name).out_of_order()
        if wrong.any():
            problems.error(
                "audit.stamps",
                "evidence/queries.parquet",
                f"{int(wrong.sum())} samples of {name} have a later stamp before an earlier one",
                "run the scenario again; no real clock gives such stamps",
            )
        little = numbers["concurrency"]
        if "undefined" in little:
            continue
        product = little["arrival_qps"] * little["mean_sojourn_ns"] / 1e9
        if not math.isclose(little["mean_in_flight"], product, rel_tol=_LITTLE_TOLERANCE):
            problems.error(
                "audit.little",
                "evidence/queries.parquet",
                f"L = {little['mean_in_flight']!r} in {name}, but lambda * W = {product!r}",
                "run the scenario again; the log contradicts itself",
            )
