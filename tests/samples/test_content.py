"""The content digest: defined bytes, the same for every file format."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.samples.content import canonical_row, content_sha256, parse_row

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_digested_bytes_are_the_documented_ones() -> None:
    rows = [{"q": "a\nb", "a": "é", "unused": 1}, {"q": "", "a": None, "unused": 2}]
    expected = b'{"a":"\xc3\xa9","q":"a\\nb"}\n' + b'{"a":null,"q":""}\n'
    assert content_sha256(rows, ["q", "a"]) == hashlib.sha256(expected).hexdigest()


def test_no_rows_have_the_digest_of_no_bytes() -> None:
    assert content_sha256([], ["q"]) == hashlib.sha256(b"").hexdigest()


def test_numbers_take_the_form_of_rfc_8785() -> None:
    # RFC 8785, section 3.2.2.3 and the ECMAScript number rules it refers to.
    row = {"v": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001, 1.0, -0.0]}
    assert canonical_row(row, ["v"]) == '{"v":[333333333.3333333,1e+30,4.5,0.002,1e-27,1,0]}'


def test_keys_are_sorted_by_utf_16_code_units() -> None:
    # RFC 8785, section 3.2.3: U+1F600 (D83D DE00) sorts before U+FB33, unlike by code point.
    row = {"\ufb33": 1, "\U0001f600": 2}
    assert canonical_row(row, row) == '{"\U0001f600":2,"\ufb33":1}'


@settings(deadline=None)
@given(st.lists(st.fixed_dictionaries({"q": JSON_VALUES, "a": JSON_VALUES}), max_size=4))
def test_a_digest_ignores_column_order_and_nothing_else(rows: list[dict[str, object]]) -> None:
    turned = [dict(reversed(row.items())) for row in rows]
    assert content_sha256(turned, ["a", "q"]) == content_sha256(rows, ["q", "a"])
    longer = [*rows, {"q": 0, "a": 0}]
    assert content_sha256(longer, ["q", "a"]) != content_sha256(rows, ["q", "a"])


@settings(deadline=None)
@given(JSON_VALUES)
def test_canonical_rows_survive_being_read_back(value: object) -> None:
    text = canonical_row({"q": value}, ["q"])
    assert "\n" not in text
    assert canonical_row(parse_row(text), ["q"]) == text


def test_row_order_and_types_matter() -> None:
    one, two = {"q": "1"}, {"q": "2"}
    assert content_sha256([one, two], ["q"]) != content_sha256([two, one], ["q"])
    assert content_sha256([{"q": 1}], ["q"]) != content_sha256([one], ["q"])


@pytest.mark.parametrize("value", [2**53, float("nan"), float("inf"), "\ud800", b"bytes"])
def test_values_without_a_portable_form_are_refused_with_their_row(value: object) -> None:
    with pytest.raises(InputError, match="row 7 has no portable JSON form"):
        canonical_row({"q": value}, ["q"], number=7)


def test_rows_are_objects() -> None:
    with pytest.raises(ValueError, match="object"):
        parse_row(json.dumps([1]))
