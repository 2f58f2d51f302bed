"""The three comparisons, and the keywords that rules may use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.judge.pointer import MISSING, resolve
from fairmark.judge.vocabulary import checker, comparisons_in, unknown_keywords
from fairmark.judge.words import fill

numbers = st.one_of(st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False))


@given(numbers, numbers)
def test_comparisons_are_those_of_numbers(value, other):
    holds = checker({"other": other})
    assert holds(value, {"atMost": {"pointer": "/other"}}) == (value <= other)
    assert holds(value, {"atLeast": {"pointer": "/other"}}) == (value >= other)
    assert holds(value, {"sameAs": {"pointer": "/other"}}) == (value == other)


def test_scale():
    holds = checker({"median": 10})
    assert holds(30, {"atMost": {"pointer": "/median", "scale": 3}})
    assert not holds(31, {"atMost": {"pointer": "/median", "scale": 3}})


@pytest.mark.parametrize("keyword", ["atMost", "atLeast", "sameAs"])
@pytest.mark.parametrize(("value", "other"), [(1, None), (None, 1), (True, 1), (1, True), ([], []), ("1", 1)])
def test_what_is_no_number_is_never_within_a_limit(keyword, value, other):
    schema = {keyword: {"pointer": "/other"}}
    assert not checker({"other": other})(value, schema)
    assert not checker({})(value, schema)


def test_strings_are_the_same_or_not():
    holds = checker({"a": "x"})
    assert holds("x", {"sameAs": {"pointer": "/a"}})
    assert not holds("y", {"sameAs": {"pointer": "/a"}})


def test_comparisons_work_inside_other_keywords():
    holds = checker({"limit": 5})
    schema = {
        "anyOf": [{"const": 9}, {"properties": {"x": {"atMost": {"pointer": "/limit"}}}, "required": ["x"]}]
    }
    assert holds({"x": 5}, schema)
    assert not holds({"x": 6}, schema)
    assert comparisons_in(schema) == [{"pointer": "/limit"}]


def test_a_misspelt_limit_is_found_wherever_it_is():
    deep = {"allOf": [{"properties": {"maximun": {"items": {"maximun": 5}}}}]}
    assert unknown_keywords(deep) == {"maximun"}  # the keyword, not the property of that name
    assert unknown_keywords({"properties": {"maximun": {"maximum": 5}}}) == set()


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("/a/b", 1), ("/a/c~1d", 2), ("/list/1", "y"), ("/none", None), ("/a/x", MISSING), ("/list/2", MISSING)],
)
def test_pointers(pointer, value):
    document = {"a": {"b": 1, "c/d": 2}, "list": ["x", "y"], "none": None}
    assert resolve(document, pointer) is value or resolve(document, pointer) == value


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{/ns|ms}", "4.1 ms"),
        ("{/ns|s}", "0.0041 s"),
        ("{/share|percent}", "0.25 %"),
        ("{/p|percentile}", "p99.9"),
        ("{/n} of {/n}", "12 345 of 12 345"),
        ("{/map}", "stalled 1, timeout 2"),
        ("{/gone} {/null}", "none none"),
    ],
)
def test_sentences(template, text):
    record = {"ns": 4_100_000, "share": 0.0025, "p": 99.9 * 0.01, "n": 12345, "null": None}
    assert fill(template, record | {"map": {"stalled": 1, "timeout": 2}}) == text
