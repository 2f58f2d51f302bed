"""Stop sequences of the simulated server: what comes before the first one, whatever the tokens are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark_sim.answers import until_stop

TOKENS = ["one", " two", " three"]


@pytest.mark.parametrize(
    ("stop", "kept"),
    [
        (None, TOKENS),
        ([], TOKENS),
        ("four", TOKENS),
        ("one", []),
        ("two", ["one", " "]),
        (["three", " two"], ["one"]),
        ("o th", ["one", " tw"]),
    ],
)
def test_an_answer_ends_before_the_first_stop_sequence(stop: str | list[str] | None, kept: list[str]) -> None:
    assert until_stop(TOKENS, stop) == kept


@given(st.lists(st.text("ab", min_size=1, max_size=3)), st.text("ab", min_size=1, max_size=3))
def test_the_text_is_cut_where_the_stop_sequence_begins(tokens: list[str], stop: str) -> None:
    assert "".join(until_stop(tokens, stop)) == "".join(tokens).partition(stop)[0]
