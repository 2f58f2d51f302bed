"""Whatever a record holds, judging it ends in a verdict, and a record of chance is not VALID."""

from __future__ import annotations

import copy
import json
from importlib import resources

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset

RULES = load_ruleset("fairmark-closed-1")
SCHEMA = json.loads(resources.files("fairmark.schemas").joinpath("run.schema.json").read_text("utf-8"))
VERDICT = Draft202012Validator({"$defs": SCHEMA["$defs"], **SCHEMA["properties"]["verdict"]})

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)
judged = sorted({pointer for rule in RULES.rules for pointer in rule.needs})


@given(st.dictionaries(st.sampled_from(["mode", "clock", "metrics", "scenario", "outcome"]), anything))
def test_no_record_of_chance_is_valid(record):
    verdict = judge(record, RULES)
    VERDICT.validate(verdict)
    assert verdict["verdict"] == "INVALID"


@pytest.mark.parametrize("ends", ["whole", "parent"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pointer=st.sampled_from(judged), value=anything)
def test_damage_anywhere_is_judged_without_a_crash(whole_record, put, ends, pointer, value):
    record = copy.deepcopy(whole_record)
    put(record, pointer if ends == "whole" else pointer.rpartition("/")[0] or pointer, value)
    verdict = judge(record, RULES)
    VERDICT.validate(verdict)
    json.dumps(verdict, allow_nan=False)
