"""Rulesets from folders: what is written can be used, and what cannot be used is refused by name."""

from __future__ import annotations

import json

import pytest

from fairmark.errors import InputError
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset, shipped_rulesets

RULE = {
    "id": "few-failures",
    "title": "At most 1 % of the queries failed",
    "guards": "Losing queries.",
    "section": "1",
    "severity": "error",
    "fix": "See the logs.",
    "at": "/metrics/performance/counts/failure_rate",
    "needs": {"/metrics/performance/counts/failure_rate": "number"},
    "schema": {"maximum": 0.01},
    "expected": "at most 1 %",
    "message": "{/metrics/performance/counts/failure_rate|percent} of the queries failed",
}


@pytest.fixture
def folder(tmp_path):
    def make(*rules, **head):
        (tmp_path / "ruleset.json").write_text(json.dumps({"id": "ours", "title": "Ours", **head}))
        for number, rule in enumerate(rules):
            (tmp_path / f"{number}.json").write_text(rule if isinstance(rule, str) else json.dumps(rule))
        return tmp_path

    return make


def test_a_ruleset_of_ones_own(folder, record, put):
    ruleset = load_ruleset(folder(RULE))
    assert judge(record, ruleset)["verdict"] == "VALID"
    put(record, RULE["at"], 0.02)
    assert judge(record, ruleset)["reasons"] == ["2 % of the queries failed"]


def test_extending_replacing_and_leaving_out(folder):
    strict = RULE | {"id": "performance-failures"}
    ruleset = load_ruleset(folder(strict, extends="fairmark-open-1", without=["clock-real"]))
    base = {rule.id for rule in load_ruleset("fairmark-open-1").rules}
    assert {rule.id for rule in ruleset.rules} == base - {"clock-real"}
    (replaced,) = [rule for rule in ruleset.rules if rule.id == "performance-failures"]
    assert replaced.schema == {"maximum": 0.01}


def test_the_digest_is_of_the_content(folder):
    first = load_ruleset(folder(RULE)).sha256
    assert load_ruleset(folder(dict(reversed(RULE.items())))).sha256 == first  # key order means nothing
    assert load_ruleset(folder(RULE | {"schema": {"maximum": 0.02}})).sha256 != first


def test_shipped_rulesets_are_there_and_ordered_by_section():
    assert shipped_rulesets() == (
        "fairmark-closed-1",
        "fairmark-open-1",
        *(f"mlperf-inference-{name}" for name in ("4.1", "5.0", "5.1", "6.0", "6.1")),
    )
    sections = [[int(n) for n in rule.section.split(".")] for rule in load_ruleset("fairmark-closed-1").rules]
    assert sections == sorted(sections)


def test_no_rule_that_applies_is_no_pass(folder, record):
    rule = RULE | {"applies": {"required": ["clock"], "properties": {"clock": {"const": "virtual"}}}}
    verdict = judge(record, load_ruleset(folder(rule)))
    assert verdict["verdict"] == "INVALID"
    assert verdict["reasons"] == ["no rule of ours applies to this run"]


@pytest.mark.parametrize(
    ("rules", "head", "says"),
    [
        ([], {}, "holds no rule"),
        (["{"], {}, "0.json: is not JSON"),
        ([RULE | {"severity": "fatal"}], {}, "0.json: severity: 'fatal' is not one of"),
        ([RULE | {"schema": {"maximun": 1}}], {}, "0.json: schema: uses keywords that do not exist"),
        ([RULE | {"schema": {"maximum": "1"}}], {}, "0.json: schema.maximum"),
        ([RULE | {"schema": {"atMost": {"scale": 2}}}], {}, "0.json: schema: compares with nothing"),
        ([RULE | {"schema": {"atMost": {"pointer": "/a", "scales": 2}}}], {}, "compares with nothing"),
        ([RULE | {"schema": {}}], {}, "0.json: schema"),
        ([RULE | {"at": "/clock"}], {}, "0.json: needs: does not give the type of the judged value"),
        ([RULE | {"message": "{/a|parsec}"}], {}, "0.json: message: is no unit (got 'parsec')"),
        ([RULE, RULE], {}, "1.json: id: is already taken"),
        ([{"id": "x"}], {}, "0.json: 'title' is a required property"),
        ([RULE], {"extends": "nothing"}, "is no ruleset"),
        ([RULE], {"extends": "fairmark-open-1", "without": ["nope"]}, "names rules that fairmark-open-1"),
        ([RULE], {"without": ["nope"]}, "'extends' is a dependency of 'without'"),
    ],
)
def test_refusals(folder, rules, head, says):
    with pytest.raises(InputError) as refused:
        load_ruleset(folder(*rules, **head))
    assert says in str(refused.value)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(
        InputError, match=r"accepted: fairmark-closed-1, fairmark-open-1, mlperf-.*, or a folder"
    ):
        load_ruleset("fairmark-closed-9")
