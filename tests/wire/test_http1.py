"""De-framing of stored responses; Python's own HTTP client is the oracle for what the body is."""

from __future__ import annotations

import http.client
import io
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.wire.http1 import deframe
from fairmark.wire.response import Read

OK = b"HTTP/1.1 200 OK\r\n"


def reads(*pieces: bytes) -> list[Read]:
    return [Read(10 * (i + 1), piece) for i, piece in enumerate(pieces)]


class _Socket:
    """Just enough of a socket for `http.client.HTTPResponse`."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def oracle(data: bytes) -> tuple[int, bytes]:
    response = http.client.HTTPResponse(cast(Any, _Socket(data)))
    response.begin()
    return response.status, response.read()


@st.composite
def framed(draw: st.DrawFn) -> tuple[str, bytes, list[bytes]]:
    """A framing, a body, and the whole response in it cut into reads at arbitrary places."""
    parts = draw(st.lists(st.binary(min_size=1, max_size=40), max_size=8))
    body = b"".join(parts)
    framing = draw(st.sampled_from(["chunked", "length", "close"]))
    if framing == "chunked":
        extension = draw(st.sampled_from([b"", b";a=b"]))
        trailer = draw(st.sampled_from([b"", b"X-Checksum: 1\r\n"]))
        coded = b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in parts)
        data = OK + b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n" + trailer + b"\r\n"
    elif framing == "length":
        data = OK + b"Content-Length: %d\r\n\r\n" % len(body) + body
    else:
        data = OK + b"X: y\r\n\r\n" + body
    cuts = draw(st.lists(st.integers(0, len(data)), max_size=12))
    edges = [0, *sorted(cuts), len(data)]
    return framing, body, [data[a:b] for a, b in pairwise(edges)]


@given(framed())
def test_any_cut_gives_the_same_body_as_the_oracle(case: tuple[str, bytes, list[bytes]]) -> None:
    framing, body, pieces = case
    message = deframe(reads(*pieces), closed=framing == "close")
    assert (message.status, message.body) == oracle(b"".join(pieces)) == (200, body)
    assert message.framing == framing
    assert message.complete
    assert message.error is None
    assert not message.surplus


@given(framed())
def test_each_byte_belongs_to_the_first_read_that_brings_it(case: tuple[str, bytes, list[bytes]]) -> None:
    framing, body, pieces = case
    message = deframe(reads(*pieces), closed=framing == "close")
    # What had arrived after each read, by de-framing every prefix of the reads on its own.
    arrived = [len(deframe(reads(*pieces[: i + 1]), closed=False).body) for i in range(len(pieces))]
    assert list(message.ends) == arrived
    for end in range(1, len(body) + 1):
        assert bisect_left(message.ends, end) == next(i for i, size in enumerate(arrived) if size >= end)


@given(framed(), st.data())
def test_a_cut_off_body_is_never_complete(case: tuple[str, bytes, list[bytes]], data: st.DataObject) -> None:
    framing, body, pieces = case
    whole = b"".join(pieces)
    kept = data.draw(st.integers(0, len(whole) - 1))
    message = deframe(reads(whole[:kept]), closed=False)
    assert not message.complete
    assert message.end_read is None
    assert message.error is None
    assert body.startswith(message.body)
    if framing != "close":
        assert not deframe(reads(whole[:kept]), closed=True).complete


def test_the_end_is_the_read_with_the_terminal_chunk() -> None:
    pieces = [OK + b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"0\r", b"\n\r\n"]
    message = deframe(reads(*pieces), closed=False)
    assert (message.body, message.end_read, list(message.ends)) == (b"abc", 3, [0, 3, 3, 3])


def test_interim_responses_are_skipped() -> None:
    interim = b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n"
    message = deframe(reads(interim[:9], interim[9:] + OK + b"Content-Length: 2\r\n\r\nhi"), closed=False)
    assert (message.status, message.body, message.complete) == (200, b"hi", True)
    assert dict(message.headers) == {"content-length": "2"}


def test_repeated_fields_are_joined_and_trailers_are_not_headers() -> None:
    data = OK + b"Via: a\r\nVIA: b\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nVia: c\r\n\r\n"
    assert deframe(reads(data), closed=False).headers["via"] == "a, b"


@pytest.mark.parametrize("more", [b"x", OK + b"Content-Length: 1\r\n\r\ny"])
@pytest.mark.parametrize("close", [b"", b"Connection: close\r\n"])
@pytest.mark.parametrize("apart", [False, True])
def test_bytes_after_the_end_are_surplus_and_never_body(more: bytes, close: bytes, apart: bool) -> None:
    whole = OK + close + b"Content-Length: 2\r\n\r\nhi"
    message = deframe(reads(whole, more) if apart else reads(whole + more), closed=False)
    assert (message.body, message.complete, message.surplus) == (b"hi", True, True)
    assert message.error is None
    assert max(message.ends) == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [b"hello, this is not HTTP"],
        [b"\x16\x03\x01\x02\x00"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\n", b"3\r\nabc\r\n", b"zz\r\n"],
        [OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n"],
        [OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx"],
        [OK + b"Content-Length: x\r\n\r\n"],
    ],
)
def test_damage_is_an_error_and_never_complete(pieces: Sequence[bytes]) -> None:
    message = deframe(reads(*pieces), closed=True)
    assert message.error
    assert not message.complete


def test_a_switch_of_protocols_is_a_final_response() -> None:
    data = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"
    message = deframe(reads(data), closed=False)
    assert (message.status, message.complete, message.error, message.surplus) == (101, True, None, False)


def test_what_came_before_the_damage_is_kept() -> None:
    message = deframe(
        reads(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", b"more"), closed=True
    )
    assert (message.status, message.body) == (200, b"abc")
    assert len(message.ends) == 2


def test_nothing_at_all() -> None:
    message = deframe([], closed=True)
    assert (message.status, message.body, message.complete, message.framing) == (None, b"", False, None)
