"""One stored HTTP/1.1 response, taken out of its framing, with every body byte traced to its read.

The parser is llhttp (through httptools), the same one that finds the end of a response while the load is
driven, so both always agree on where that end is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import httptools

from fairmark.wire.response import Read

__all__ = ["Framing", "Message", "deframe"]

Framing = Literal["length", "chunked", "close"]


@dataclass(frozen=True, slots=True)
class Message:
    """A response without its framing.

    Attributes:
        status: None when the status line never became complete.
        headers: by lower-case name; the values of repeated fields are joined with ``", "``.
        body: the body without chunk framing, as far as it arrived.
        ends: for each read, how many body bytes had arrived after it; ascending. The read that completed the
            first n bytes of the body is therefore ``bisect_left(ends, n)``.
        framing: how the body's end is marked; None while the head is incomplete.
        complete: the body ended as its framing says: terminal chunk, full length, or a clean close.
        end_read: the read that completed the response; None when it is not complete, or when it was
            completed by the close.
        error: why the bytes are not HTTP/1.1; None when they are.
        surplus: bytes followed the end of the response.
    """

    status: int | None
    headers: Mapping[str, str]
    body: bytes
    ends: Sequence[int]
    framing: Framing | None
    complete: bool
    end_read: int | None
    error: str | None
    surplus: bool


def deframe(reads: Sequence[Read], *, closed: bool) -> Message:
    """Take the response in ``reads`` out of its HTTP/1.1 framing.

    Never raises on what the bytes hold: damage is reported in `Message.error` and `Message.complete`.

    Args:
        reads: the socket reads of this response, in order.
        closed: the peer closed the connection cleanly after the last read.
    """
    collector = _Collector()
    parser = collector.parser
    parts = collector.parts
    ends: list[int] = []
    size = counted = 0
    error: str | None = None
    surplus = False
    for number, read in enumerate(reads):
        collector.read = number
        if collector.end_read is not None:
            surplus = surplus or bool(read.data)
        elif error is None:
            try:
                parser.feed_data(read.data)
            except httptools.HttpParserUpgrade:
                pass  # raised after the end of a 101, which is as complete as it gets
            except httptools.HttpParserError as problem:
                error = str(problem) or type(problem).__name__
        while counted < len(parts):
            size += len(parts[counted])
            counted += 1
        ends.append(size)
    return _message(collector, ends, error, surplus, closed)


def _message(
    collector: _Collector, ends: list[int], error: str | None, surplus: bool, closed: bool
) -> Message:
    if collector.end_read is not None:
        # llhttp goes on to the next response: what it found there is surplus, not damage to this one.
        surplus = surplus or error is not None or collector.overrun
        error = None
    body = b"".join(collector.parts[: collector.end_parts])
    framing = _framing(collector.headers) if collector.head_complete else None
    by_close = framing == "close" and closed and error is None
    return Message(
        status=collector.status,
        headers=collector.headers,
        body=body,
        ends=[min(end, len(body)) for end in ends] if surplus else ends,
        framing=framing,
        complete=collector.end_read is not None or by_close,
        end_read=collector.end_read,
        error=error,
        surplus=surplus,
    )


def _framing(headers: Mapping[str, str]) -> Framing:
    """RFC 9112 section 6.3: chunked coding comes before a length, and without either the close ends."""
    if headers.get("transfer-encoding", "").lower().endswith("chunked"):
        return "chunked"
    return "length" if "content-length" in headers else "close"


class _Collector:
    """Receives llhttp's callbacks for one final response; interim (1xx) responses are skipped."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        # httptools binds its callbacks once: an append costs no Python frame per piece of body.
        self.on_body = self.parts.append
        self.headers: dict[str, str] = {}
        self.status: int | None = None
        self.head_complete = False
        self.read = 0
        self.end_read: int | None = None
        self.end_parts: int | None = None
        self.overrun = False
        self.parser = httptools.HttpResponseParser(self)

    def on_message_begin(self) -> None:
        self.overrun = self.end_read is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.head_complete:
            return  # a trailer, or the head of a response that nobody asked for
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        if self.head_complete:
            return
        status = self.parser.get_status_code()
        if _interim(status):
            self.headers.clear()
        else:
            self.status, self.head_complete = status, True

    def on_message_complete(self) -> None:
        if self.head_complete and self.end_read is None:
            self.end_read, self.end_parts = self.read, len(self.parts)


def _interim(status: int) -> bool:
    """A 1xx that a final response follows; 101 is the last word of HTTP on its connection."""
    return 100 <= status < 200 and status != 101
