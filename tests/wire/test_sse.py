"""The grammar of server-sent events, against a parser that reads one byte after the other."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.wire.sse import events


def byte_by_byte(body: bytes) -> list[tuple[bytes, bytes, int]]:
    """The standard's line-by-line rules, taken literally: slow, obvious, and written without `fairmark`."""
    found: list[tuple[bytes, bytes, int]] = []
    data: list[bytes] = []
    name = line = b""
    has_data = skip_lf = False
    start = 3 if body[:3] == b"\xef\xbb\xbf" else 0
    for position in range(start, len(body)):
        byte = body[position : position + 1]
        if skip_lf and byte == b"\n":
            skip_lf = False
            continue
        skip_lf = byte == b"\r"
        if byte not in (b"\n", b"\r"):
            line += byte
            continue
        if line == b"":
            if has_data:
                found.append((b"\n".join(data), name, position + 1))
            data, name, has_data = [], b"", False
        elif not line.startswith(b":"):
            field, colon, value = line.partition(b":")
            if colon and value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                data.append(value)
                has_data = True
            elif field == b"event":
                name = value
        line = b""
    return found


def parsed(body: bytes) -> list[tuple[bytes, bytes, int]]:
    found = events(body)
    return list(zip(found.data, found.names, found.ends, strict=True))


PIECES = st.sampled_from(
    [
        *(b"data: ", b"data:", b"data", b"event: ", b"id: 1", b"retry: 5", b": comment", b":", b" ", b"x"),
        *(b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b"\r\r", b"\n\r", "é中🚀".encode(), b"\xc3", b"\x00"),
    ]
)


@settings(max_examples=1000)
@given(st.lists(PIECES, max_size=30).map(b"".join), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_any_bytes_give_the_events_of_the_standard(body: bytes, mark: bytes) -> None:
    assert parsed(mark + body) == byte_by_byte(mark + body)


@given(
    st.lists(st.sampled_from([b"{}", b"a", b"data: ", b"", b" ", b"\n", b"\r", b"x\ny"]), max_size=6),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
)
def test_the_short_way_is_the_long_way(data: list[bytes], end: bytes) -> None:
    body = b"".join(b"data: " + d + end + end for d in data)
    assert parsed(body) == byte_by_byte(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # The examples of the standard's own text (HTML, "Interpreting an event stream").
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [b"YHOO\n+2\n10"]),
        (b"data\n\ndata\ndata\n\ndata:", [b"", b"\n"]),
        (b"data:test\n\ndata: test\n\n", [b"test", b"test"]),
        (b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event", None),
    ],
)
def test_the_examples_of_the_standard(body: bytes, expected: list[bytes] | None) -> None:
    assert list(events(body).data) == (expected or [b"first event", b"second event"])


def test_an_event_is_complete_at_the_first_byte_of_its_empty_line() -> None:
    assert events(b"data: a\r\n\r\n").ends == [10]
    assert events(b"data: a\r\n\r").ends == [10]
    assert events(b"data: a\n\n").ends == [9]
    assert events(b"data: a\r\r").ends == [9]


def test_what_the_end_cuts_off_is_dropped_and_named() -> None:
    found = events(b"data: a\n\ndata: b\n")
    assert (list(found.data), found.rest) == ([b"a"], b"data: b")
    assert events(b"data: a\n\n").rest == b""
    assert events(b"").rest == b""


def test_a_character_cut_anywhere_is_whole_in_its_event() -> None:
    assert events("data: né 中 🚀\n\n".encode()).data[0].decode() == "né 中 🚀"
