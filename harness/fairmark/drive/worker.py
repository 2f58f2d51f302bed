"""A load-generating process: ``python -m fairmark.drive.worker STORE NUMBER``.

Started as a fresh interpreter on a prepared live store, so that it holds nothing but what driving takes.
Request heads come as a JSON list of strings on standard input, because they may hold secrets. It talks to
nobody but the servers: progress, permission to go on and the wish to stop are words of the control page.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final

from fairmark.drive.health import Health, freeze_heap
from fairmark.drive.http.client import Client, Pool
from fairmark.drive.http.request import Bodies
from fairmark.drive.orders import Orders, PhaseOrders, make_policy, read_orders
from fairmark.drive.phase import PhaseLoop, Share
from fairmark.drive.policy import share
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LiveStore, open_store
from fairmark.evidence.store import DiskFullError, LogWriter

__all__ = ["FATAL", "main"]

_TICK_S: Final = 0.02
_CONNECT_S: Final = 30.0
FATAL: Final = frozenset(
    {"sut_failed", "disk_full", "interrupted", "terminated", "drain_timeout", "worker_died"}
)
"""Reasons after which no further phase is driven."""


class Worker:
    """One worker's run through all phases."""

    def __init__(self, store: LiveStore, orders: Orders, number: int, heads: Sequence[bytes]) -> None:
        self._store = store
        self._orders = orders
        self._number = number
        self._control = store.control()
        self._block = self._control.workers[number]
        self._log = LogWriter(store.log_stem(number))
        self._bodies = Bodies(store.folder)
        self._crash: BaseException | None = None
        self._phase: PhaseLoop | None = None
        self._phase_number = 0
        pools = [Pool(target, head) for target, head in zip(orders.targets, heads, strict=True)]
        self._client = Client(
            pools,
            self._bodies,
            store.columns(write=True).stamps,
            self._log,
            timeout_ns=orders.timeout_ns,
            crashed=self._crashed,
        )
        self._facts: dict[str, Any] = {
            "worker": number,
            "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [],
            "descriptors_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "gc": "frozen",
        }

    async def run(self) -> None:
        """Drive every phase, then close."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: self._crashed(context.get("exception") or _error(context))
        )
        self._facts["loop"] = type(loop).__module__.partition(".")[0]
        gauges = {
            "open_connections": lambda: float(self._client.open_connections),
            "connections_lost": lambda: float(self._client.connections_lost),
            "in_flight": lambda: float(len(self._client.in_flight)),
        }
        self._health = Health(loop, self._log, self._facts["cores"], gauges)
        for number, orders in enumerate(self._orders.phases):
            reason = await self._drive(number, orders)
            self._block.finish(number, reason, monotonic_ns())
            if reason in FATAL:
                break
        self._client.close()
        self._facts["connections_opened"] = self._client.connections_opened
        self._write_facts()
        self._log.close()
        if self._crash is not None and not isinstance(self._crash, DiskFullError):
            raise self._crash

    async def _drive(self, number: int, orders: PhaseOrders) -> str:
        store, phase = self._store, self._store.phases[number]
        part = Share.of(phase, store.first_seq[number], self._number, store.workers)
        policy = make_policy(orders, part.units, part.due_ns, self._number, store.workers)
        self._client.begin(store.first_seq[number], self._bodies.numbers(phase.sample_index))
        loop = self._phase = PhaseLoop(part, policy, self._client, pacer=self._orders.pacer)
        self._phase_number = number
        self._facts["pacer"] = loop.pacer_name
        try:
            async with asyncio.timeout(_CONNECT_S):
                await self._client.open(share(orders.connections, self._number, store.workers))
        except OSError as error:
            reason = str(error) or f"no connection within {_CONNECT_S:.0f} s"
            print(f"the server cannot be reached: {reason}", file=sys.stderr)
            return "worker_died" if self._crash else "sut_failed"
        self._write_facts()
        freeze_heap()
        self._block.ready = number + 1
        return await self._measure(loop, orders) if await self._released(number) else self._stop_reason()

    async def _released(self, number: int) -> bool:
        """Wait for permission to start the phase; False if the run is stopped instead."""
        while self._control.released <= number:
            if self._control.stop_level or self._orphaned():
                return False
            self._client.refill(monotonic_ns())
            self._block.beat(monotonic_ns(), 0, 0, 0, self._client.open_connections)
            await asyncio.sleep(0.002)
        return True

    async def _measure(self, phase: PhaseLoop, orders: PhaseOrders) -> str:
        self._health.start()
        ticking = asyncio.ensure_future(self._ticking(phase, open_loop=orders.slots is None))
        ticking.add_done_callback(self._watched)
        try:
            reason = await phase.run(self._control.epoch_ns(self._phase_number))
        finally:
            ticking.cancel()
            self._beat(phase, monotonic_ns())
            self._keep(self._health.stop)
        return "disk_full" if isinstance(self._crash, DiskFullError) else reason

    async def _ticking(self, phase: PhaseLoop, *, open_loop: bool) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            now = monotonic_ns()
            level = self._control.stop_level
            if level >= 2 or self._orphaned():
                phase.abort(self._stop_reason())
            elif level == 1:
                phase.stop(self._stop_reason())
            phase.tick(now, self._orders.drain_ns, open_loop=open_loop)
            self._keep(partial(self._health.sample, now))
            self._beat(phase, now)

    def _keep(self, health: Callable[[], None]) -> None:
        try:
            health()
        except DiskFullError as error:
            self._crashed(error)

    def _beat(self, phase: PhaseLoop, now: int) -> None:
        self._block.beat(now, phase.issued, phase.completed, phase.failed, self._client.open_connections)
        if phase.sent_all:
            self._block.mark_sent_all(self._phase_number)

    def _orphaned(self) -> bool:
        return os.getppid() != self._orders.coordinator

    def _stop_reason(self) -> str:
        return self._control.stop_reason or "terminated"

    def _watched(self, task: asyncio.Future[None]) -> None:
        """A background task that dies would leave the worker deaf: end the phase with its error."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        """End the phase at once: nothing that is stamped from here on could be trusted."""
        first = self._crash is None
        self._crash = self._crash or error
        if first and self._phase is not None:
            self._phase.abort("disk_full" if isinstance(error, DiskFullError) else "worker_died")

    def _write_facts(self) -> None:
        write_json(self._store.folder / f"worker-{self._number}.json", self._facts)


def _error(context: dict[str, Any]) -> RuntimeError:
    return RuntimeError(str(context.get("message", "the event loop failed")))


def _run(main_task: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main_task)
    else:
        uvloop.run(main_task)


def main(arguments: Sequence[str]) -> None:
    """Run worker ``arguments[1]`` on the live store ``arguments[0]``."""
    folder, number = Path(arguments[0]), int(arguments[1])
    orders = read_orders(folder)
    if orders.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {orders.cores[number % len(orders.cores)]})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    heads = [head.encode("latin-1") for head in json.load(sys.stdin)]
    store = open_store(folder)
    try:
        worker = Worker(store, orders, number, heads)
    except DiskFullError as error:
        print(error, file=sys.stderr)
        store.control().workers[number].finish(0, "disk_full", monotonic_ns())
    else:
        _run(worker.run())


if __name__ == "__main__":
    main(sys.argv[1:])
