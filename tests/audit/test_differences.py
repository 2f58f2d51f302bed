"""Comparing recorded with recomputed values: what counts as equal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.audit.numbers import differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_a_value_equals_itself(value: Any) -> None:
    assert list(differences(value, value, "x")) == []


@pytest.mark.parametrize(
    ("recorded", "recomputed", "paths"),
    [
        ({"a": 1}, {"a": 2}, ["x.a"]),
        ({"a": 1}, {"a": 1.0}, ["x.a"]),
        ({"a": True}, {"a": 1}, ["x.a"]),
        ({"a": 1}, {}, ["x.a"]),
        ({}, {"a": 1}, ["x.a"]),
        ([1, 2], [1, 2, 3], ["x"]),
        ([1, [2]], [1, [3]], ["x.1.0"]),
        (1.0, 1.0 + 1e-13, []),
        (1.0, 1.0 + 1e-11, ["x"]),
        (0.0, 1e-300, ["x"]),
        (2**60, 2**60 + 1, ["x"]),
        (None, 0, ["x"]),
        ("a", "b", ["x"]),
    ],
)
def test_differences(recorded: Any, recomputed: Any, paths: list[str]) -> None:
    assert [path for path, _, _ in differences(recorded, recomputed, "x")] == paths
