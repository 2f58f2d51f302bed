"""How a response is cut into chunks and reads changes when its events are seen, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read, Response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Incremental:
    """Reads a chunked event stream byte by byte, and says at which byte each event became known."""

    def __init__(self) -> None:
        self._head = b""
        self._size = b""
        self._left = 0
        self._after = 0
        self._line = b""
        self._data: list[bytes] = []
        self._cr = False

    def feed(self, data: bytes) -> Iterator[str]:
        """The kinds of the events that ``data`` completes."""
        for value in data:
            byte = bytes([value])
            if not self._head.endswith(b"\r\n\r\n"):
                self._head += byte
            elif self._after:
                self._after -= 1
            elif self._left == 0:
                self._size += byte
                if self._size.endswith(b"\r\n"):
                    self._left, self._size = int(self._size, 16), b""
                    self._after = 0 if self._left else 2
            else:
                self._left -= 1
                self._after = 0 if self._left else 2
                yield from self._body(byte)

    def _body(self, byte: bytes) -> Iterator[str]:
        if self._cr and byte == b"\n":
            self._cr = False
            return
        self._cr = byte == b"\r"
        if byte not in (b"\r", b"\n"):
            self._line += byte
        elif self._line:
            if self._line.startswith(b"data:"):
                self._data.append(self._line[5:].removeprefix(b" "))
            self._line = b""
        elif self._data:
            data, self._data = b"\n".join(self._data), []
            yield _kind(data)


def _kind(data: bytes) -> str:
    if data == b"[DONE]":
        return "end"
    try:
        document = json.loads(data)
    except ValueError:
        return "error"
    if "error" in document:
        return "error"
    if not document["choices"]:
        return "usage"
    (choice,) = document["choices"]
    if choice["delta"].get("content"):
        return "content"
    return "finish" if choice["finish_reason"] else "role"


def _event(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps({"id": "x", "choices": [choice]}, ensure_ascii=False).encode()


EVENTS = st.one_of(
    st.text(min_size=1, max_size=6).filter(lambda t: t.isprintable()).map(lambda t: _event({"content": t})),
    st.sampled_from(
        [
            _event({"role": "assistant"}),
            _event({}, "stop"),
            json.dumps({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 7}}).encode(),
            json.dumps({"error": "boom"}).encode(),
            b"{",
        ]
    ),
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """An event stream: any events, any line ends, comments in between, with or without its end marker."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    blocks = [b"data: " + data for data in draw(st.lists(EVENTS, max_size=6))]
    if draw(st.booleans()):
        blocks.append(b"data: [DONE]")
    if draw(st.booleans()):
        blocks.insert(draw(st.integers(0, len(blocks))), b": keep-alive")
    return b"".join(block + end + end for block in blocks)


def _cut(draw: st.DrawFn, data: bytes, most: int) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=most)))
    return [data[a:b] for a, b in pairwise([0, *cuts, len(data)])]


@st.composite
def arrivals(draw: st.DrawFn, body: bytes) -> list[Read]:
    """``body`` in any chunks, and those in any reads."""
    chunks = [part for part in _cut(draw, body, 8) if part]
    wire = HEAD + b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + b"0\r\n\r\n"
    return [Read(1000 + 7 * i, piece) for i, piece in enumerate(_cut(draw, wire, 20))]


def decode(reads: Sequence[Read]) -> Response:
    return dialect("openai-chat").decode(reads, closed=False, stream=True)


def facts(response: Response) -> list[Any]:
    """All that must not depend on how the bytes arrived."""
    names = ("http_status", "text", "finish_reason", "output_tokens", "failure", "failure_detail", "flags")
    counts = [(event.kind, event.n_tokens) for event in response.events]
    return [counts, *(getattr(response, name) for name in names)]


@settings(max_examples=300)
@given(st.data(), bodies())
def test_chunks_and_reads_change_no_fact(data: st.DataObject, body: bytes) -> None:
    whole = decode([Read(0, HEAD + (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n")])
    assert facts(decode(data.draw(arrivals(body)))) == facts(whole)


@settings(max_examples=300)
@given(st.data(), bodies())
def test_stamps_are_those_of_an_incremental_reader(data: st.DataObject, body: bytes) -> None:
    reads = data.draw(arrivals(body))
    reader = Incremental()
    expected = [
        (kind, number, read.arrival_ns)
        for number, read in enumerate(reads)
        for kind in reader.feed(read.data)
    ]
    found = [(event.kind, event.read, event.arrival_ns) for event in decode(reads).events]
    assert found == expected


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=60), max_size=6), st.booleans(), st.sampled_from([None, True, False]))
def test_no_bytes_make_the_decoder_raise(pieces: list[bytes], closed: bool, stream: bool | None) -> None:
    for head in (b"", HEAD, HEAD.replace(b"Transfer-Encoding: chunked\r\n", b"")):
        reads = [Read(i, piece) for i, piece in enumerate([head, *pieces])]
        response = dialect("openai-chat").decode(reads, closed=closed, stream=stream)
        # Random bytes never make an answer, and every failure says why.
        assert response.failure is not None
        assert response.failure_detail
