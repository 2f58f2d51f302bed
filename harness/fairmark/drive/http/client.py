"""The HTTP client of one worker: pools of connections, requests in flight, time-outs.

The open loop is never capped: when no connection is idle a new one is opened, and the wait for it is part
of the latency. Nothing is retried and no redirect is followed.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable, Coroutine, Sequence
from time import monotonic_ns
from typing import Any, Final

from fairmark.drive.http.connection import Connection
from fairmark.drive.http.request import Bodies
from fairmark.drive.orders import Target
from fairmark.evidence.store import DETAIL, OUTCOMES, DiskFullError, LogWriter, Stamps

__all__ = ["Client", "Pool"]

_CONNECT: Final = OUTCOMES.index("connect")
_TIMEOUT: Final = OUTCOMES.index("timeout")
_STALLED: Final = OUTCOMES.index("stalled")
_ABORTED: Final = OUTCOMES.index("aborted")
_COMPLETE: Final = OUTCOMES.index("complete")

_REUSED, _NEW = 1, 2
_REFILL_PAUSE_NS: Final = 1_000_000_000
_STALE_NS: Final = 2_000_000_000
"""Well before servers give up on a connection that has sent nothing; 5 s is usual."""

_IDLE_NS: Final = 4_000_000_000
"""The same for a connection that has carried queries: one that is sent just as the server closes an idle
connection is lost, and the loss would be booked as the server's."""

_MAX_DETAIL: Final = 500
_OWN_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL})
"""Failures to connect that say nothing about the server: out of descriptors or of ports."""


class Pool:
    """The connections to one endpoint."""

    __slots__ = (
        "_context",
        "_target",
        "connections",
        "head",
        "idle",
        "lost",
        "opened",
        "persistent",
        "wanted",
    )

    def __init__(self, target: Target, head: bytes) -> None:
        self._target = target
        self._context = ssl.create_default_context() if target.tls else None
        self.head = head
        self.persistent = target.persistent
        self.idle: list[Connection] = []
        self.connections: set[Connection] = set()
        self.wanted = 0
        self.opened = 0
        self.lost = 0

    @property
    def lacks(self) -> bool:
        """Whether a connection should be opened ahead.

        A server that closes after each response tends to give every connection a thread, and idle ones
        would take threads from queries: there, one is opened ahead and no more.
        """
        return len(self.connections) < self.wanted if self.persistent else not self.idle

    def close_stale(self, now: int) -> None:
        """Close what the server may be about to close itself; the longest idle come first."""
        while self.persistent and self.idle and now - self.idle[0].idle_since_ns > _IDLE_NS:
            self.idle[0].close()
        if not self.persistent:
            for connection in [c for c in self.idle if now - c.opened_ns > _STALE_NS]:
                connection.close()

    async def connect(self, client: Client) -> Connection:
        """Open a connection.

        Raises:
            OSError: it cannot be opened.
        """
        target = self._target
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(client, self),
            target.host,
            target.port,
            ssl=self._context,
            server_hostname=target.host if target.tls else None,
        )
        if connection not in self.connections:
            raise ConnectionResetError("the server closed the connection as soon as it was open")
        return connection

    def remember(self, connection: Connection) -> None:
        """A connection is open."""
        self.connections.add(connection)
        self.opened += 1

    def forget(self, connection: Connection) -> None:
        """A connection is gone or about to go."""
        if connection in self.connections:
            self.connections.remove(connection)
            self.lost += 1
            if connection in self.idle:
                self.idle.remove(connection)


class Client:
    """Sends requests and reports their ends.

    Args:
        finished: called with (seq, time of the end, whether it was a complete response with status 200).
        crashed: called with an error that nothing else would see.
    """

    def __init__(
        self,
        pools: Sequence[Pool],
        bodies: Bodies,
        stamps: Stamps,
        log: LogWriter,
        *,
        timeout_ns: int,
        crashed: Callable[[BaseException], None],
    ) -> None:
        self.stamps = stamps
        self._issued, _, self._completed, self._outcome, self._status, self._connection = stamps
        self.log = log
        self.crashed = crashed
        self.finished: Callable[[int, int, bool], None] = _nobody
        self.refusals = 0
        self.refused_since_ns = 0
        self.in_flight: dict[int, Connection | asyncio.Task[None]] = {}
        self._pools = pools
        self._pool_count = len(pools)
        self._bodies = bodies
        self._body_numbers = memoryview(b"").cast("q")
        self._first_seq = 0
        self._timeout_ns = timeout_ns
        self._refill: asyncio.Task[None] | None = None
        self._refill_after_ns = 0

    def begin(self, first_seq: int, body_numbers: memoryview) -> None:
        """Say which bodies the samples of a phase have, from its first seq on."""
        self._first_seq = first_seq
        self._body_numbers = body_numbers

    async def open(self, connections: int) -> None:
        """Have at least ``connections`` connections open, shared evenly over the endpoints, and keep them.

        To an endpoint that does not keep connections, only the next query's is opened ahead.

        Raises:
            OSError: one cannot be opened.
        """
        each = -(-connections // len(self._pools))
        for pool in self._pools:
            pool.wanted = each
            while pool.lacks:
                pool.idle.append(await pool.connect(self))

    def send(self, seq: int, now: int) -> None:
        """Send the request of sample ``seq``, whose time has come at ``now``."""
        self._issued[seq] = now
        number = seq % self._pool_count
        pool = self._pools[number]
        if pool.idle:
            connection = pool.idle.pop()
            self._connection[seq] = _REUSED + 2 * number
            self.in_flight[seq] = connection
            connection.start(seq, pool.head + self._bodies[self._body_numbers[seq - self._first_seq]])
            if not pool.persistent:
                self.refill(now)
        else:
            self._connection[seq] = _NEW + 2 * number
            self.in_flight[seq] = self._background(self._send_on_new(pool, seq))

    def finish(self, seq: int, now: int, outcome: int, status: int, detail: str = "") -> None:
        """Stamp the end of ``seq`` and pass it on. The outcome is written last: it commits the others."""
        self._completed[seq] = now
        self._status[seq] = status
        self._outcome[seq] = outcome
        del self.in_flight[seq]
        if outcome == _CONNECT:
            self.refused_since_ns = self.refused_since_ns or now
            self.refusals += 1
        elif self.refusals and outcome != _TIMEOUT:
            self.refusals = self.refused_since_ns = 0
        if detail:
            self._explain(seq, now, detail)
        self.finished(seq, now, outcome == _COMPLETE and status == 200)

    def sweep(self, now: int) -> None:
        """End what is over time. In-flight queries are in the order they were issued."""
        while self.in_flight:
            seq = next(iter(self.in_flight))
            if self.stamps.issued[seq] + self._timeout_ns > now:
                return
            self._give_up(seq, now, None)

    def abort(self, now: int) -> None:
        """End everything in flight as aborted."""
        for seq in list(self.in_flight):
            self._give_up(seq, now, _ABORTED)

    def refill(self, now: int) -> None:
        """Open, in the background, what was closed between queries or is used up."""
        if now < self._refill_after_ns or (self._refill is not None and not self._refill.done()):
            return
        for pool in self._pools:
            pool.close_stale(now)
        if any(pool.lacks for pool in self._pools):
            self._refill = self._background(self._reopen())

    def close(self) -> None:
        """Close every connection."""
        if self._refill is not None:
            self._refill.cancel()
        for pool in self._pools:
            for connection in list(pool.connections):
                connection.close()

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return sum(len(pool.connections) for pool in self._pools)

    @property
    def connections_opened(self) -> int:
        """How many were opened so far."""
        return sum(pool.opened for pool in self._pools)

    @property
    def connections_lost(self) -> int:
        """How many were closed by either side so far."""
        return sum(pool.lost for pool in self._pools)

    def _body(self, seq: int) -> memoryview:
        return self._bodies[self._body_numbers[seq - self._first_seq]]

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task whose unexpected end is not lost."""

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.crashed(error)

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(ended)
        return task

    async def _send_on_new(self, pool: Pool, seq: int) -> None:
        try:
            connection = await pool.connect(self)
        except OSError as error:
            self.finish(seq, monotonic_ns(), _CONNECT, 0, str(error))
            if error.errno in _OWN_LIMITS:
                self.refusals = self.refused_since_ns = 0
            return
        if seq not in self.in_flight:
            pool.idle.append(connection)
            return
        self.in_flight[seq] = connection
        connection.start(seq, pool.head + self._body(seq))

    async def _reopen(self) -> None:
        try:
            for pool in self._pools:
                while pool.lacks:
                    pool.idle.append(await pool.connect(self))
        except OSError:
            # The next query will meet the same error and record it; hammering a dead server helps nobody.
            self._refill_after_ns = monotonic_ns() + _REFILL_PAUSE_NS

    def _give_up(self, seq: int, now: int, outcome: int | None) -> None:
        holder = self.in_flight[seq]
        if isinstance(holder, Connection):
            answered = holder.answered
            holder.drop()
        else:
            answered = False
            holder.cancel()
        self.finish(seq, now, outcome or (_STALLED if answered else _TIMEOUT), 0)

    def _explain(self, seq: int, now: int, detail: str) -> None:
        try:
            self.log.append(DETAIL, seq, now, detail.encode("utf-8", "replace")[:_MAX_DETAIL])
        except DiskFullError as error:
            self.crashed(error)


def _nobody(seq: int, now: int, ok: bool) -> None:
    """Between phases nothing is in flight."""
