"""One client connection: reads requests, plays their scripts, keeps account."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import httptools

from fairmark_sim.arrivals import Arrival
from fairmark_sim.faults import BREAKING
from fairmark_sim.script import Ending, Script

if TYPE_CHECKING:
    from fairmark_sim.engine import Engine

__all__ = ["Connection", "Request"]

# Timers of an event loop fire up to a millisecond late but may fire a little early by its coarser clock.
_EARLY_NS = 50_000


@dataclass(slots=True)
class Request:
    """A request as it is being read. Times are CLOCK_MONOTONIC nanoseconds."""

    arrival_ns: int
    path: str = ""
    method: str = ""
    parts: list[bytes] = field(default_factory=list)
    received_ns: int = 0

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(self.parts)


class Connection(asyncio.Protocol):
    """Serves one connection, one request after the other, pipelined ones in order."""

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine = engine
        self._number = number
        self._parser = httptools.HttpRequestParser(self)
        self._reading: Request | None = None
        self._stamp_ns = 0
        self._queue: deque[Request] = deque()
        self._playing: _Player | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        self.transport = cast(asyncio.Transport, transport)
        self._engine.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop whatever is being answered."""
        self._engine.connections.discard(self)
        self._queue.clear()
        if self._playing is not None:
            self._playing.client_left()

    def data_received(self, data: bytes) -> None:
        """Stamp, then parse."""
        self._stamp_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            assert self.transport is not None
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins (called by the parser)."""
        self._reading = Request(arrival_ns=self._stamp_ns)

    def on_url(self, url: bytes) -> None:
        """Part of the request's target (called by the parser)."""
        assert self._reading is not None
        self._reading.path += url.decode("ascii", "replace")

    def on_body(self, body: bytes) -> None:
        """Part of the request's body (called by the parser)."""
        assert self._reading is not None
        self._reading.parts.append(body)

    def on_message_complete(self) -> None:
        """The request is complete (called by the parser)."""
        request, self._reading = self._reading, None
        assert request is not None
        request.method = self._parser.get_method().decode("ascii")
        request.received_ns = self._stamp_ns
        self._queue.append(request)
        self._next()

    def _next(self) -> None:
        while self._queue and self._playing is None:
            self._begin(self._queue.popleft())

    def _begin(self, request: Request) -> None:
        planned = self._engine.answer(request)
        if isinstance(planned, bytes):
            assert self.transport is not None
            self.transport.write(planned)
            return
        script, prompt, faults = planned
        arrival = Arrival(
            request=self._engine.generations,
            connection=self._number,
            path=request.path,
            arrival_ns=request.arrival_ns,
            received_ns=request.received_ns,
            body_sha256=hashlib.sha256(request.body).hexdigest(),
            prompt_sha256=hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest(),
            in_flight=self._engine.begin(),
            faults=sorted(faults),
            status=script.status,
        )
        self._playing = _Player(self, self._engine, script, arrival)
        self._playing.queue()

    def played(self) -> None:
        """The response has been sent: go on with the next request."""
        self._playing = None
        if self._queue:
            self._engine.loop.call_soon(self._next)

    @property
    def idle(self) -> bool:
        """Nothing is being read or answered."""
        return self._playing is None and self._reading is None

    def abandon(self) -> None:
        """The server stops: account for the request in progress."""
        if self._playing is not None:
            self._playing.server_stops()


class _Player:
    """Plays one script on one connection and writes its line of the account."""

    def __init__(self, connection: Connection, engine: Engine, script: Script, arrival: Arrival) -> None:
        self._connection = connection
        self._engine = engine
        self._script = script
        self._arrival = arrival
        self._position = 0
        self._timer: asyncio.Handle | None = None
        self._holds_slot = False
        self._closed = False

    def queue(self) -> None:
        """Wait for a free server; the reply's times count from then."""
        self._engine.slots.acquire(self._start)

    def _start(self) -> None:
        self._holds_slot = True
        self._arrival.start_ns = time.monotonic_ns()
        self._play()

    def _play(self) -> None:
        """Write every step that is due, then sleep until the next one or end."""
        self._timer = None
        arrival, steps = self._arrival, self._script.steps
        assert arrival.start_ns is not None
        due: list[bytes] = []
        position, tokens = self._position, arrival.output_tokens
        elapsed_ns = time.monotonic_ns() - arrival.start_ns + _EARLY_NS
        while position < len(steps) and steps[position].at_ns <= elapsed_ns:
            due.append(steps[position].data)
            tokens = steps[position].tokens
            position += 1
            if self._script.separate:
                break
        self._position = position
        if due:
            self._write(b"".join(due), tokens)
        if position == len(steps):
            self._end()
        elif not self._closed:
            wait_ns = steps[position].at_ns - (time.monotonic_ns() - arrival.start_ns)
            loop = self._engine.loop
            self._timer = (
                loop.call_later(wait_ns * 1e-9, self._play) if wait_ns > 0 else loop.call_soon(self._play)
            )

    def _write(self, data: bytes, tokens: int) -> None:
        assert self._connection.transport is not None
        if tokens and self._arrival.first_token_ns is None:
            self._arrival.first_token_ns = time.monotonic_ns()
        self._arrival.output_tokens = tokens
        self._connection.transport.write(data)

    def _end(self) -> None:
        transport = self._connection.transport
        assert transport is not None
        match self._script.ending:
            case Ending.KEEP:
                self._close("sent")
                self._connection.played()
            case Ending.CLOSE:
                self._close("sent" if _unbroken(self._arrival) else "broken")
                transport.close()
            case Ending.RESET:
                self._close("broken")
                _reset(transport)
            case Ending.HANG:
                # The place stays taken until the client gives up: a stalled engine is busy.
                self._arrival.outcome = "broken"
            case Ending.REFUSE:
                self._close("broken")
                self._engine.stop_listening()
                transport.close()
            case Ending.EXIT:
                self._close("broken")
                self._engine.abandon_all()
                os._exit(1)

    def client_left(self) -> None:
        """The connection is gone."""
        if not self._closed:
            self._close("broken" if self._arrival.outcome == "broken" else "disconnected")

    def server_stops(self) -> None:
        """Account for what is unfinished."""
        if not self._closed:
            self._close(self._arrival.outcome)

    def _close(self, outcome: str) -> None:
        self._closed = True
        self._arrival.outcome = outcome
        self._arrival.end_ns = time.monotonic_ns()
        if self._timer is not None:
            self._timer.cancel()
        self._engine.end(self._arrival)
        if self._holds_slot:
            self._engine.slots.release()
        else:
            self._engine.slots.withdraw(self._start)


def _unbroken(arrival: Arrival) -> bool:
    return not set(arrival.faults) & BREAKING.keys()


def _reset(transport: asyncio.Transport) -> None:
    """Close with RST instead of FIN: lingering for zero seconds makes the kernel drop the connection."""
    sock = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
