"""From a record and a ruleset to a verdict. There is no judgement in this code: it is all in the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairmark.judge.applying import Answer, Satisfies, applying
from fairmark.judge.pointer import MISSING, resolve
from fairmark.judge.rules import Outcome, Rule, Ruleset
from fairmark.judge.vocabulary import checker, comparisons_in, is_number
from fairmark.judge.words import fill

__all__ = ["judge"]

_TYPES: Final = {"string": str, "boolean": bool, "array": list, "object": dict}


def judge(record: Mapping[str, Any], ruleset: Ruleset) -> dict[str, Any]:
    """The verdict on ``record`` (``verdict`` of ``schemas/run.schema.json``).

    VALID when every error-level rule that applies passes; INSUFFICIENT when those that do not pass only lack
    queries or time; INVALID otherwise, and when no rule applies. "Not evaluable" never passes, and a rule of
    which the record does not tell whether it applies is not evaluable.
    """
    satisfies = checker(record)
    asked = [(rule, _applies(rule, record, satisfies)) for rule in ruleset.rules]
    results = [_result(rule, applies, record, satisfies) for rule, applies in asked if applies is not False]
    broken = [r for r in results if r["severity"] == "error" and r["outcome"] != "pass"]
    warned = [r for r in results if r["severity"] == "warning" and r["outcome"] != "pass"]
    reasons = [result["message"] for result in broken]
    if not results:
        reasons = [f"no rule of {ruleset.id} applies to this run"]
    return {
        "ruleset": ruleset.id,
        "ruleset_sha256": ruleset.sha256,
        "verdict": _verdict(results, broken),
        "reasons": reasons,
        "warnings": [result["message"] for result in warned],
        "not_applicable": [rule.id for rule, applies in asked if applies is False],
        "rules": results,
    }


def _applies(rule: Rule, record: Mapping[str, Any], satisfies: Satisfies) -> Answer:
    if rule.applies is None:
        return True
    return applying(rule.applies, record, satisfies, rule.optional)


def _verdict(results: list[dict[str, Any]], broken: list[dict[str, Any]]) -> str:
    if results and not broken:
        return "VALID"
    if broken and all(result["outcome"] == "insufficient" for result in broken):
        return "INSUFFICIENT"
    return "INVALID"


def _result(rule: Rule, applies: Answer, record: Mapping[str, Any], satisfies: Satisfies) -> dict[str, Any]:
    lacking = _lacking(rule, record)
    found = resolve(record, rule.at)
    outcome: Outcome
    if isinstance(applies, str):
        outcome = "not_evaluable"
        message = f"{rule.title} cannot be judged: whether it applies depends on {applies}, which is missing"
    elif lacking is not None:
        outcome, message = rule.missing, f"{rule.title} cannot be judged: {lacking}"
    elif satisfies(found, rule.schema):
        outcome, message = "pass", rule.title
    else:
        outcome, message = rule.failing, fill(rule.message, record)
    return {
        "id": rule.id,
        "outcome": outcome,
        "severity": rule.severity,
        "title": rule.title,
        "expected": fill(rule.expected, record),
        "found": None if found is MISSING else found,
        "where": rule.at,
        "message": message,
        "section": rule.section,
        "fix": rule.fix,
    }


def _lacking(rule: Rule, record: Mapping[str, Any]) -> str | None:
    """Why the rule cannot be asked: the first need that is missing, null or of another type."""
    needs = {**{other["pointer"]: "any" for other in comparisons_in(rule.schema)}, **rule.needs}
    for pointer, wanted in needs.items():
        value = resolve(record, pointer)
        if value is MISSING or value is None:
            return f"{pointer} {_reason(record, pointer)}"
        if not _is_of(value, wanted):
            return f"{pointer} is not of type {wanted}"
    return None


def _is_of(value: Any, wanted: str) -> bool:
    if wanted in ("integer", "number"):
        return is_number(value) and (wanted == "number" or isinstance(value, int))
    return wanted == "any" or isinstance(value, _TYPES[wanted])


def _reason(record: Mapping[str, Any], pointer: str) -> str:
    """What the record itself says about a number that is not there."""
    parent, _, name = pointer.rpartition("/")
    reason = resolve(record, f"{parent}/reasons/{name}")
    while reason is MISSING and pointer:
        reason = resolve(record, f"{pointer}/undefined")
        pointer = pointer.rpartition("/")[0]
    return "is missing" if reason is MISSING else f"does not exist: {reason}"
