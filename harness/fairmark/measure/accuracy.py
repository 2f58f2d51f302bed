"""How good the answers were: every answer of a phase scored, failures as 0, with an interval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fairmark.errors import InputError
from fairmark.evidence.evidence import Evidence
from fairmark.measure.held_answers import held_answers
from fairmark.measure.programs import NOT_ALLOWED, Runner, pass_at_k, program_of
from fairmark.measure.scorers import SCORERS, Scorer
from fairmark.measure.undefined import undefined
from fairmark.samples.content import parse_row
from fairmark.samples.references import parse_references
from fairmark.scenario.model import Accuracy, Generation, Samples

__all__ = ["Scores", "check_scorer", "score"]

CONFIDENCE: Final = 0.95

Expected = Callable[[int], str | None]
"""The reference of a sample, by index; None where there is none."""

Grade = Callable[[int, str | None], float | None]
"""The score of an answer to a sample, by index; a failure has no text. None where there is no reference."""


class _UndefinedError(Exception):
    """There is no score; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of one phase: one entry per issued sample; ``texts`` holds None for failures."""

    sample_index: Sequence[int]
    texts: Sequence[str | None]


def check_scorer(accuracy: Accuracy, samples: Samples, generation: Generation) -> None:
    """Refuse, before a run, a scorer that could not score it.

    Raises:
        InputError: the scorer is unknown, lacks what it compares with, or the outputs are cut too short.
    """
    scorer = SCORERS.get(accuracy.scorer)
    if scorer is None:
        raise InputError(
            "there is no such scorer",
            field="accuracy.scorer",
            value=accuracy.scorer,
            accepted=", ".join(SCORERS),
        )
    field = "accuracy.reference" if scorer.against == "references" else "samples.reference"
    if (accuracy.reference if scorer.against == "references" else samples.reference) is None:
        raise InputError(f"is missing; the scorer {scorer.name} compares with it", field=field)
    limit = generation.max_output_tokens
    if limit is not None and limit < scorer.min_output_tokens:
        raise InputError(
            f"cuts answers before the scorer {scorer.name} can find them right",
            field="generation.max_output_tokens",
            value=limit,
            accepted=f">= {scorer.min_output_tokens}",
        )


@dataclass(frozen=True, slots=True)
class Scores:
    """The scored answers of one phase, in plan order.

    Attributes:
        rows: the sample of each.
        values: between 0 and 1.
        failed: how many of them are failures, which score 0.
        unscored: answers to samples without a reference.
    """

    scorer: Scorer
    rows: tuple[int, ...]
    values: tuple[float, ...]
    failed: int
    unscored: int

    def by_row(self) -> list[tuple[int, float]]:
        """Row and score of each."""
        return list(zip(self.rows, self.values, strict=True))


def score(
    evidence: Evidence,
    facts: Mapping[str, Any],
    references: bytes | None,
    *,
    phases: Sequence[str],
    run_program: Runner | None = None,
) -> dict[str, dict[str, Any]]:
    """Score the answers of each phase by the scenario's scorer.

    A failed sample scores 0. A sample without a reference cannot be scored and is counted as ``unscored``;
    that depends on the pinned data alone, never on the SUT.

    Args:
        evidence: the run's evidence; ``outputs`` is joined to ``queries`` by ``seq`` and to ``samples`` by
            ``sample_index``.
        facts: the facts part of the run record; its ``scenario`` is the resolved document.
        references: bytes of the reference file, when the run has one.
        phases: ``performance``, ``accuracy`` or both.
        run_program: runs answers that are programs; None where that is not allowed.

    Returns:
        By phase ``scorer``, ``n`` (scored answers), ``failed`` (of those), ``unscored``, ``samples``
        (distinct rows scored), ``of_samples`` (rows there are), ``score`` (mean, 0 to 1), ``interval``,
        ``target`` and ``judged`` (whether the target holds for this phase); in the performance phase
        ``held_answers`` too (`fairmark.measure.held_answers`). Or ``{"undefined": reason}``.
    """
    scenario = facts["scenario"]
    spec = scenario.get("accuracy")
    if spec is None:
        return {phase: undefined("the scenario does not ask for answers to be scored") for phase in phases}
    try:
        scorer = _scorer(spec, scenario["generation"])
        grade = _grader(scorer, evidence, scenario, references, run_program)
    except _UndefinedError as reason:
        return {phase: undefined(str(reason)) for phase in phases}
    scored = {phase: _scores(scorer, grade, _answers(evidence, phase)) for phase in phases}
    found: dict[str, dict[str, Any]] = {}
    for phase, scores in scored.items():
        if isinstance(scores, str):
            found[phase] = undefined(scores)
            continue
        found[phase] = _described(scores) | {
            "of_samples": evidence.samples.num_rows,
            "target": spec["target"],
            "judged": phase in spec["judged"],
        }
        if phase == "performance":
            other = scored.get("accuracy")
            before = other.by_row() if isinstance(other, Scores) else None
            found[phase]["held_answers"] = held_answers(before, scores.by_row())
    return found


def _scorer(spec: Mapping[str, Any], generation: Mapping[str, Any]) -> Scorer:
    scorer = SCORERS.get(spec["scorer"])
    if scorer is None:
        raise _UndefinedError(f"there is no scorer {spec['scorer']!r}; there are {', '.join(SCORERS)}")
    limit = generation.get("max_output_tokens")
    if limit is not None and limit < scorer.min_output_tokens:
        raise _UndefinedError(
            f"{scorer.name} needs outputs of {scorer.min_output_tokens} tokens, the scenario cuts at {limit}"
        )
    return scorer


def _grader(
    scorer: Scorer,
    evidence: Evidence,
    scenario: Mapping[str, Any],
    references: bytes | None,
    run_program: Runner | None,
) -> Grade:
    if scorer.against == "tests":
        return _program_grader(evidence.samples, scenario["samples"], run_program)
    if scorer.against == "answers":
        expected = _dataset_answers(evidence.samples, scenario["samples"].get("reference"))
    else:
        expected = _reference_outputs(scenario, references)

    def grade(index: int, text: str | None) -> float | None:
        reference = expected(index)
        if reference is None:
            return None
        return 0.0 if text is None else scorer.score(text, reference)

    return grade


def _program_grader(samples: pa.Table, spec: Mapping[str, Any], run_program: Runner | None) -> Grade:
    if run_program is None:
        raise _UndefinedError(NOT_ALLOWED)
    run = run_program
    prompts = _dataset_answers(samples, spec["prompt"])
    tests = _dataset_answers(samples, spec.get("reference"))

    def grade(index: int, text: str | None) -> float | None:
        prompt, test = prompts(index), tests(index)
        program = None if prompt is None or test is None else program_of(prompt, text or "", test)
        if program is None:
            return None
        return 0.0 if text is None else float(run(program))

    return grade


def _dataset_answers(samples: pa.Table, column: str | None) -> Expected:
    if column is None:
        raise _UndefinedError("the scenario names no column with reference answers")
    rows = dict(zip(samples["index"].to_pylist(), samples["row"].to_pylist(), strict=True))

    def expected(index: int) -> str | None:
        row = rows.get(index)
        value = None if row is None else parse_row(row).get(column)
        return value if value is None or isinstance(value, str) else json.dumps(value)

    return expected


def _reference_outputs(scenario: Mapping[str, Any], data: bytes | None) -> Expected:
    if data is None:
        raise _UndefinedError("the evidence holds no reference outputs")
    pin, found = scenario["accuracy"].get("sha256"), hashlib.sha256(data).hexdigest()
    if pin not in (None, found):
        raise _UndefinedError(f"the reference outputs have the digest {found}, the scenario pins {pin}")
    try:
        references = parse_references(data)
    except ValueError as error:
        raise _UndefinedError(f"the reference outputs cannot be read: {error}") from error
    limit = scenario["generation"].get("max_output_tokens")
    longest = max((len(r.ends) for r in references.values() if r.ends is not None), default=None)
    if longest is not None and (limit is None or limit > longest):
        raise _UndefinedError(
            f"the reference outputs end after {longest} tokens, the scenario allows {limit or 'more'}"
        )

    def expected(index: int) -> str | None:
        reference = references.get(index)
        return None if reference is None else reference.first(limit)

    return expected


def _answers(evidence: Evidence, phase: str) -> _Answers:
    queries = evidence.queries
    in_phase = pc.equal(queries["phase"].cast(pa.string()), pa.scalar(phase))
    rows = queries.filter(pc.and_(in_phase, pc.is_valid(queries["issued_ns"]))).sort_by("seq")
    failed = pc.or_(pc.is_valid(rows["failure"]), pc.is_null(rows["completed_ns"]))
    outputs = dict(zip(_numbers(evidence.outputs["seq"]), evidence.outputs["text"].to_pylist(), strict=True))
    texts = [
        None if bad else outputs.get(seq) or ""
        for seq, bad in zip(_numbers(rows["seq"]), failed.to_pylist(), strict=True)
    ]
    return _Answers(_numbers(rows["sample_index"]), texts)


def _numbers(column: pa.ChunkedArray[Any]) -> list[int]:
    numbers: list[int] = column.to_numpy().tolist()
    return numbers


def _scores(scorer: Scorer, grade: Grade, answers: _Answers) -> Scores | str:
    """The scores of a phase, or why there are none. Equal answers to one sample are graded once."""
    known: dict[tuple[int, str | None], float | None] = {}
    rows, values, failed = [], [], 0
    for pair in zip(answers.sample_index, answers.texts, strict=True):
        if pair not in known:
            known[pair] = grade(*pair)
        value = known[pair]
        if value is not None:
            rows.append(pair[0])
            values.append(value)
            failed += pair[1] is None
    if not values:
        return "no answer has a reference" if answers.texts else "the phase has no answers"
    return Scores(scorer, tuple(rows), tuple(values), failed, len(answers.texts) - len(values))


def _described(scores: Scores) -> dict[str, Any]:
    rows, values = np.array(scores.rows), np.array(scores.values)
    if scores.scorer.against == "tests":
        rows, values = _passed_at_1(rows, values)
    binary = scores.scorer.binary and bool(np.isin(values, (0.0, 1.0)).all())
    return {
        "scorer": scores.scorer.name,
        "n": len(scores.values),
        "failed": scores.failed,
        "unscored": scores.unscored,
        "samples": len(set(scores.rows)),
        "score": float(np.mean(values)),
        "interval": _interval(values, rows, binary=binary),
    }


def _passed_at_1(
    rows: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """pass@1 of each problem, however often it was asked: problems count alike."""
    problems, row = np.unique(rows, return_inverse=True)
    asked, right = np.bincount(row), np.bincount(row, weights=values)
    passed = [pass_at_k(int(n), round(c), 1) for n, c in zip(asked, right, strict=True)]
    return problems, np.array(passed)


def _interval(
    scores: npt.NDArray[np.float64], indices: npt.NDArray[np.int64], *, binary: bool
) -> dict[str, Any]:
    """Interval of the mean score over the samples that might have been drawn.

    Answers to one sample are not independent, so the unit is the sample: Student's t with the variance of a
    mean over clusters of unequal size (Cochran 1977, Sampling Techniques, section 9A.1). Wilson's interval
    (Wilson 1927) for 0/1 scores of distinct samples, and where no spread was seen and t would have width 0.
    """
    _, cluster = np.unique(indices, return_inverse=True)
    clusters = int(cluster.max()) + 1
    if clusters < 2:
        return undefined("one sample has no spread")
    mean = float(scores.mean())
    totals = np.bincount(cluster, weights=scores - mean)
    variance = clusters / (clusters - 1) * float(np.sum(totals**2)) / len(scores) ** 2
    if variance == 0 or (binary and clusters == len(scores)):
        low, high = _wilson(mean, clusters)
        method = "wilson"
    else:
        from scipy.special import stdtrit

        half = float(stdtrit(clusters - 1, (1 + CONFIDENCE) / 2)) * variance**0.5
        low, high = max(0.0, mean - half), min(1.0, mean + half)
        method = "student-t over samples"
    return {"low": low, "high": high, "confidence": CONFIDENCE, "method": method}


def _wilson(mean: float, n: int) -> tuple[float, float]:
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    centre = (mean + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (mean * (1 - mean) / n + z * z / (4 * n * n)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)
