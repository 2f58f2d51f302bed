"""Server-sent events, by the WHATWG standard (HTML, section 9.2 "Server-sent events").

Lines end with LF, CRLF or CR; an event ends with an empty line; a line that begins with a colon is a
comment; several ``data`` lines are joined with LF; one byte order mark at the start is skipped; an event
that the end of the stream cuts off is dropped. Nothing is decoded here: an event's data are the bytes as
they came, so a character that is spread over reads or chunks is whole again before anyone decodes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["events", "unfinished"]

_BOM = b"\xef\xbb\xbf"
# The end of an event's last line, then the empty line. The group is atomic so that one CRLF is never taken
# for two line ends. The event is complete at the CR of the empty line: a LF after it adds nothing.
_EMPTY_LINE = re.compile(rb"(?>\r\n|\n|\r)(\r\n?|\n)")


def events(body: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """The events in ``body``, in linear time and without a limit on their size.

    Yields:
        ``(data, name, end)``: the joined data lines; the value of the last ``event`` field, empty when there
        is none; and how many bytes of ``body`` complete the event. Events without a data line are left
        out, as the standard demands. ``id`` and ``retry`` serve reconnection and are ignored.
    """
    start = len(_BOM) if body.startswith(_BOM) else 0
    for match in _EMPTY_LINE.finditer(body, start):
        block = body[start : match.start()]
        start = match.end()
        # Nearly every event of an inference server is one line.
        if block.startswith(b"data: ") and b"\n" not in block and b"\r" not in block:
            yield block[6:], b"", match.start(1) + 1
            continue
        data, name = _fields(block)
        if data is not None:
            yield data, name, match.start(1) + 1


def unfinished(body: bytes) -> bytes:
    """What follows the last complete event of ``body``: nothing, after a stream that ended well."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    for match in _EMPTY_LINE.finditer(body, start):
        start = match.end()
    return body[start:].strip(b"\r\n")


def _fields(block: bytes) -> tuple[bytes | None, bytes]:
    """The data (None without a data line) and the name of an event.

    `bytes.splitlines` knows exactly the three line ends of the standard.
    """
    data: list[bytes] = []
    name = b""
    for line in block.splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return b"\n".join(data) if data else None, name
