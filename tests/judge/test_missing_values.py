"""A value that is left out never makes a rule pass, and never makes it go away."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from fairmark.judge.applying import applying, mentioned
from fairmark.judge.judge import judge
from fairmark.judge.rules import Rule, load_ruleset
from fairmark.judge.vocabulary import checker

RULESETS = [load_ruleset("fairmark-open-1"), load_ruleset("fairmark-closed-1")]
INDIFFERENT = {"trend"}
"""Applies if either of two conditions holds, and one of them does."""

CASES = [
    (ruleset, rule, pointer)
    for ruleset in RULESETS
    for rule in ruleset.rules
    for pointer in sorted({*rule.needs, *(mentioned(rule.applies) if rule.applies else ())})
]


def without(record: dict[str, Any], pointer: str) -> dict[str, Any]:
    """The record with one value deleted."""
    changed = holder = dict(record)
    *path, last = pointer.split("/")[1:]
    for part in path:
        holder[part] = holder = dict(holder[part])
    del holder[last]
    return changed


def alone(rule: Rule, record: dict[str, Any], ruleset: Any) -> list[dict[str, Any]]:
    return judge(record, dataclasses.replace(ruleset, rules=(rule,)))["rules"]


@pytest.fixture
def applying_record(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A record that every rule of a scenario applies to: the whole one, and one of a closed loop."""
    closed = copy.deepcopy(record)
    closed["scenario"]["scenario"] = "Concurrency"
    lag = closed["metrics"]["performance"]["client"]["send_lag_ns"]
    closed["metrics"]["performance"]["client"]["turnaround_ns"] = dict(lag)
    return {"Server": record, "Concurrency": closed}


@pytest.mark.parametrize(
    ("ruleset", "rule", "pointer"), CASES, ids=lambda value: getattr(value, "id", None) or str(value)
)
def test_deleting_what_a_rule_asks_for(
    ruleset: Any, rule: Rule, pointer: str, applying_record: dict[str, dict[str, Any]]
) -> None:
    record = applying_record["Concurrency" if rule.id == "client-turnaround" else "Server"]
    (whole,) = alone(rule, record, ruleset)
    assert whole["outcome"] == "pass"
    left = alone(rule, without(record, pointer), ruleset)
    if pointer in rule.optional and pointer not in rule.needs:
        # Its absence may say something: a scenario without such a table does not ask for it.
        assert {found["outcome"] for found in left} <= {"pass", "not_evaluable", "insufficient"}
        return
    (found,) = left
    if pointer in rule.needs or rule.id not in INDIFFERENT:
        assert found["outcome"] in {"not_evaluable", "insufficient"}
        assert "is missing" in found["message"]


def test_a_rule_without_metrics_is_not_evaluable_rather_than_not_applicable(record: dict[str, Any]) -> None:
    record["metrics"] = {}
    verdict = judge(record, RULESETS[0])
    measured = {r.id for r in RULESETS[0].rules if r.at.startswith("/metrics/")}
    of_bounds = {r.id for r in RULESETS[0].rules if r.optional}
    found = {r["id"] for r in verdict["rules"] if r["outcome"] in {"not_evaluable", "insufficient"}}
    assert measured - found <= of_bounds | {"client-turnaround"}
    assert verdict["verdict"] == "INVALID"


WHERE = {"required": ["a"], "properties": {"a": {"required": ["b"], "properties": {"b": {"minimum": 3}}}}}


@pytest.mark.parametrize(
    ("record", "answer"),
    [
        ({"a": {"b": 3}}, True),
        ({"a": {"b": 2}}, False),
        ({"a": {}}, "/a/b"),
        ({}, "/a/b"),
        ({"a": {"undefined": "no sample succeeded"}}, False),
        ({"a": None}, False),
    ],
)
def test_three_answers(record: dict[str, Any], answer: bool | str) -> None:
    satisfies = checker(record)
    assert applying(WHERE, record, satisfies) == answer
    negated = answer if isinstance(answer, str) else not answer
    assert applying({"not": WHERE}, record, satisfies) == negated
    yes, no = {"type": "object"}, {"type": "string"}
    assert applying({"allOf": [WHERE, yes]}, record, satisfies) == answer
    assert applying({"allOf": [WHERE, no]}, record, satisfies) is False
    assert applying({"anyOf": [WHERE, yes]}, record, satisfies) is True
    assert applying({"anyOf": [WHERE, no]}, record, satisfies) == answer


def test_what_may_be_left_out_answers_by_its_absence() -> None:
    record: dict[str, Any] = {"a": {}}
    assert applying(WHERE, record, checker(record), ["/a/b"]) is False
