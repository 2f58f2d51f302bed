"""One HTTP/1.1 connection: stamps first, stores raw bytes, parses only far enough to find the end."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, cast

import httptools

from fairmark.evidence.store import OUTCOMES, WIRE

if TYPE_CHECKING:
    from fairmark.drive.http.client import Client, Pool

__all__ = ["Connection"]

_NONE: Final = -1
_COMPLETE: Final = OUTCOMES.index("complete")
_EOF: Final = OUTCOMES.index("eof")
_RESET: Final = OUTCOMES.index("reset")
_CONNECT: Final = OUTCOMES.index("connect")
_GARBLED: Final = OUTCOMES.index("garbled")


class Connection(asyncio.Protocol):
    """Carries one request at a time. ``seq`` is the request in flight, or -1.

    ``answered`` says whether a byte of its response has arrived.
    """

    __slots__ = (
        "_append",
        "_client",
        "_feed",
        "_parser",
        "_pool",
        "_reusable",
        "_sent",
        "_status",
        "_transport",
        "_write",
        "answered",
        "idle_since_ns",
        "opened_ns",
        "seq",
    )

    _transport: asyncio.Transport

    def __init__(self, client: Client, pool: Pool) -> None:
        self._client = client
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        # Bound once: these are called for every query.
        self._append, self._feed = client.log.append, self._parser.feed_data
        self._sent = client.stamps.sent
        self._status = 0
        self._reusable = False
        self.answered = False
        self.opened_ns = self.idle_since_ns = 0
        self.seq = _NONE

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport; the pool decides what the connection is for."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not subclasses
        self._write = self._transport.write
        self.opened_ns = self.idle_since_ns = monotonic_ns()
        self._pool.remember(self)

    def start(self, seq: int, request: bytes) -> None:
        """Send ``request`` for query sample ``seq``.

        Stamped before the bytes leave, so that no time of the server can fall before the stamp.
        """
        self.seq = seq
        self.answered = False
        self._sent[seq] = monotonic_ns()
        self._write(request)

    def data_received(self, data: bytes) -> None:
        """Stamp and store a read, then see whether it ends the response."""
        now = monotonic_ns()
        seq = self.seq
        if seq < 0:
            # Nothing was asked for: whatever this is, the connection cannot be trusted with a query.
            self.close()
            return
        self.answered = True
        try:
            self._append(WIRE, seq, now, data)
            self._feed(data)
        except httptools.HttpParserError as error:
            if self.seq >= 0:
                self._fail(now, _GARBLED, str(error))
            return
        except Exception as error:  # noqa: BLE001  # the event loop would log it and go on
            self._client.crashed(error)
            return
        if self._status:
            self._finish(now)

    def on_message_complete(self) -> None:
        """The parser found the end of a message; an interim 1xx response is not the end."""
        status = self._parser.get_status_code()
        if status >= 200:
            # Only here does the parser know: after it, it has prepared itself for the next message.
            self._status, self._reusable = status, self._parser.should_keep_alive()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone, between two queries or in the middle of one."""
        now = monotonic_ns()
        self._pool.forget(self)
        if self.seq < 0:
            return
        if not self.answered:
            self._fail(now, _CONNECT, f"the connection broke before any response byte ({exc or 'closed'})")
        else:
            self._fail(now, _EOF if exc is None else _RESET, "" if exc is None else str(exc))

    def drop(self) -> None:
        """Give up the query in flight without reporting it, and close."""
        self.seq = _NONE
        self.close()

    def close(self) -> None:
        """Close at once; unsent data is discarded."""
        self._pool.forget(self)
        self._transport.abort()

    def _finish(self, now: int) -> None:
        seq, status = self.seq, self._status
        self.seq, self._status = _NONE, 0
        if self._reusable and self._pool.persistent:
            self.idle_since_ns = now
            self._pool.idle.append(self)
        else:
            self.close()
        self._client.finish(seq, now, _COMPLETE, status)

    def _fail(self, now: int, outcome: int, detail: str) -> None:
        seq, self.seq = self.seq, _NONE
        status = self._parser.get_status_code() if self.answered else 0
        self.close()
        self._client.finish(seq, now, outcome, status, detail)
