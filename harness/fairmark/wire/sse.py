"""Server-sent events, by the WHATWG standard (HTML, section 9.2 "Server-sent events").

Lines end with LF, CRLF or CR; an event ends with an empty line; a line that begins with a colon is a
comment; several ``data`` lines are joined with LF; one byte order mark at the start is skipped; an event
that the end of the stream cuts off is dropped. Nothing is decoded here: an event's data are the bytes as
they came, so a character that is spread over reads or chunks is whole again before anyone decodes it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

__all__ = ["Events", "events"]

_BOM: Final = b"\xef\xbb\xbf"
# The end of an event's last line, then the empty line. The group is atomic so that one CRLF is never taken
# for two line ends. The event is complete at the CR of the empty line: a LF after it adds nothing.
_EMPTY_LINE: Final = re.compile(rb"(?>\r\n|\n|\r)(\r\n?|\n)")
_DATA: Final = b"data: "


@dataclass(frozen=True, slots=True)
class Events:
    """The events of a stream, as columns of equal length.

    Attributes:
        data: the joined data lines of each event. Events without a data line are left out, as the standard
            demands; ``id`` and ``retry`` serve reconnection and are ignored.
        names: the value of the last ``event`` field, empty when there is none.
        ends: how many bytes of the body complete each event.
        rest: what follows the last complete event: nothing, after a stream that ended well.
    """

    data: Sequence[bytes]
    names: Sequence[bytes]
    ends: Sequence[int]
    rest: bytes


def events(body: bytes) -> Events:
    """The events in ``body``, in linear time and without a limit on their size."""
    start = len(_BOM) if body.startswith(_BOM) else 0
    plain = _plain(body, start)
    if plain is not None:
        return plain
    data: list[bytes] = []
    names: list[bytes] = []
    ends: list[int] = []
    for match in _EMPTY_LINE.finditer(body, start):
        joined, name = _fields(body[start : match.start()])
        start = match.end()
        if joined is not None:
            data.append(joined)
            names.append(name)
            ends.append(match.start(1) + 1)
    return Events(data, names, ends, body[start:].strip(b"\r\n"))


def _plain(body: bytes, start: int) -> Events | None:
    """The events of a stream in which each is exactly ``data: …`` LF LF, as most servers write it; or None.

    Same result as the general way, many times faster. Cutting at ``LF LF data:`` leaves n pieces; if the body
    begins and ends as it should and has no CR and 2n LFs, no piece can hold a line end of its own.
    """
    if not (body.startswith(_DATA, start) and body.endswith(b"\n\n")) or b"\r" in body:
        return None
    data = body[start + len(_DATA) : -2].split(b"\n\n" + _DATA)
    if body.count(b"\n") != 2 * len(data):
        return None
    ends = list(accumulate([len(d) + len(_DATA) + 2 for d in data], initial=start))
    return Events(data, [b""] * len(data), ends[1:], b"")


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
