"""All repetitions must be there, and all must pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.judge.series import incomplete, judge_series, series_of, wanted_repetitions

Record = dict[str, Any]
SCHEMA = json.loads(resources.files("fairmark.schemas").joinpath("series.schema.json").read_text("utf-8"))


@pytest.fixture
def repetitions(record: Record) -> list[Record]:
    """Three repetitions of a run that all pass."""
    record["verdict"] = {**judge(record, load_ruleset("fairmark-open-1")), "verdict": "VALID", "reasons": []}
    record["scenario"]["settings"]["repetitions"] = 3
    made = [copy.deepcopy(record) for _ in range(3)]
    for number, each in enumerate(made):
        each["plan"]["repetition"] = number
        each["run_id"] = f"run-{number}"
        each["series"] = "a" * 32
    return made


def series(records: list[Record]) -> Record:
    (group,) = series_of(records)
    found = judge_series(group)
    Draft202012Validator(SCHEMA).validate(found)
    return found


def fail(record: Record, verdict: str, reason: str) -> None:
    record["verdict"].update(verdict=verdict, reasons=[reason])


def test_all_valid(repetitions: list[Record]) -> None:
    found = series(repetitions[::-1])
    assert (found["verdict"], found["reasons"]) == ("VALID", [])
    assert [run["repetition"] for run in found["runs"]] == [0, 1, 2]
    qps = found["spread"]["performance"]["rates.qps"]
    assert (len(qps["values"]), qps["sd"]) == (3, 0.0)
    assert set(found["spread"]) == {"performance", "accuracy"}


def test_one_that_fails_fails_all_and_is_named(repetitions: list[Record]) -> None:
    fail(repetitions[2], "INVALID", "TTFT is over its bound")
    found = series(repetitions)
    assert found["verdict"] == "INVALID"
    assert found["reasons"] == ["repetition 2: TTFT is over its bound"]


def test_one_that_is_too_short_makes_all_insufficient(repetitions: list[Record]) -> None:
    fail(repetitions[1], "INSUFFICIENT", "more queries are needed")
    assert series(repetitions)["verdict"] == "INSUFFICIENT"
    fail(repetitions[0], "INVALID", "too slow")
    assert series(repetitions)["verdict"] == "INVALID"


def test_the_best_of_several_is_not_the_series(repetitions: list[Record]) -> None:
    found = series(repetitions[:2])
    assert (found["verdict"], found["reasons"]) == ("INVALID", ["repetition 2 of 3 is missing"])
    again = series([*repetitions, copy.deepcopy(repetitions[1])])
    assert again["reasons"] == ["repetition 1 is there more than once"]
    repetitions[2]["plan"]["repetition"] = 3
    assert series(repetitions)["reasons"] == [
        "repetition 2 of 3 is missing",
        "repetition 3 is more than the 3 that were asked for",
    ]


def test_repetitions_of_several_series_are_no_series(repetitions: list[Record]) -> None:
    repetitions[1]["series"] = "b" * 32
    groups = series_of(repetitions)
    assert [judge_series(group)["verdict"] for group in groups] == ["INVALID", "INVALID"]
    assert incomplete(groups[0]) == ["repetition 1 of 3 is missing"]
    assert incomplete(repetitions) == ["the repetitions are of 2 series, not of one"]


def test_repetitions_that_were_run_alone_are_no_series(repetitions: list[Record]) -> None:
    repetitions[0]["series"] = None
    del repetitions[1]["series"], repetitions[2]["series"]
    found = series(repetitions)
    assert found["verdict"] == "INVALID"
    assert found["reasons"] == [f"repetition {number} was run alone, in no series" for number in range(3)]


def test_two_whole_series_are_two_results(repetitions: list[Record]) -> None:
    others = copy.deepcopy(repetitions)
    for each in others:
        each["series"] = "b" * 32
    fail(others[0], "INVALID", "too slow")
    groups = series_of([*others, *repetitions])
    assert [judge_series(group)["verdict"] for group in groups] == ["INVALID", "VALID"]


CHANGES: dict[str, Callable[[Record], Any]] = {
    "clock": lambda r: r.update(clock="virtual"),
    "ruleset": lambda r: r["verdict"].update(ruleset="mine"),
    "content of the ruleset": lambda r: r["verdict"].update(ruleset_sha256="0" * 64),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_another_clock_and_other_rules_make_no_series(repetitions: list[Record], changed: str) -> None:
    CHANGES[changed](repetitions[2])
    groups = series_of(repetitions)
    assert [incomplete(group)[0] for group in groups] == [
        "repetition 2 of 3 is missing",
        "repetition 0 of 3 is missing",
    ]


def test_other_systems_and_settings_are_other_series(repetitions: list[Record]) -> None:
    repetitions[1]["sut"]["options"] = {"model": "another"}
    repetitions[2]["scenario"]["settings"]["target_qps"] = 1.0
    assert len(series_of(repetitions)) == 3


def test_single_runs_and_accuracy_runs_have_no_repetitions(repetitions: list[Record]) -> None:
    repetitions[0]["mode"] = "accuracy"
    assert wanted_repetitions(repetitions[0]) == 1
    repetitions[1]["scenario"]["settings"]["repetitions"] = 1
    assert series_of(repetitions[:2]) == []
