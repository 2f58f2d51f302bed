"""The process that holds a system under test: ``python -m fairmark.drive.inprocess.worker STORE 0``.

A fresh interpreter that has imported the driver and one plugin, and nothing else: no `datasets`, no
`pyarrow`. Issuer and engine share it, and with it the interpreter lock; `Watch` is the third thread.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from fairmark.drive.health import Health, freeze_heap
from fairmark.drive.inprocess.apart import ApartPhase
from fairmark.drive.inprocess.content import read_samples
from fairmark.drive.inprocess.engine import BatchEngine, CallbackEngine, Engine, SampleOf, SyncEngine
from fairmark.drive.inprocess.issuer import Line, issuer
from fairmark.drive.inprocess.loop_phase import LoopPhase, TaskSender
from fairmark.drive.inprocess.loop_stream import LoopStreamPhase
from fairmark.drive.inprocess.phase import SlicePhase, SolePhase, ThreadedPhase, ThreadPhase
from fairmark.drive.inprocess.plugin import PluginOrder, Shape, read_plugin
from fairmark.drive.inprocess.sink import EventSink, SharedLog
from fairmark.drive.inprocess.tight import SchedulePhase, StreamPhase, is_schedule, is_stream
from fairmark.drive.inprocess.waiting import sharpen_timers
from fairmark.drive.inprocess.watch import Watch
from fairmark.drive.orders import Orders, PhaseOrders, make_policy, read_orders
from fairmark.drive.phase import Share
from fairmark.drive.worker import FATAL
from fairmark.errors import FairmarkError
from fairmark.evidence.closing import CLAIMS
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LiveStore, open_store
from fairmark.evidence.store import DiskFullError
from fairmark.samples.sample import Sample
from fairmark.sut.api import SUT, AsyncSUT, BatchSUT, CallbackSUT, QueryBlock, SyncSUT

__all__ = ["main", "make_engine"]

_SWITCH_INTERVAL_S: Final = 50e-6
"""A thread that is due waits this long for a busy one, not the 5 ms that Python starts with."""

_PERMISSION_S: Final = 0.002
_BLOCK: Final = 65_536
_CLOSE_PATIENCE_S: Final = 3.0


Int64s = npt.NDArray[np.int64]
T = TypeVar("T")


class _SystemError(Exception):
    """The system raised where it is not asked about a query."""


class Worker:
    """The one worker's run through all phases."""

    def __init__(self, store: LiveStore, orders: Orders, plugin: PluginOrder) -> None:
        self._store = store
        self._orders = orders
        self._plugin = plugin
        self._control = store.control()
        self._block = self._control.workers[0]
        self._log = SharedLog(store.log_stem(0))
        self._sink = EventSink(store.columns(write=True).stamps, self._log, store.samples, self._crashed)
        self._number = 0
        self._closed = threading.Lock()
        self._sut: SUT | None = None
        self._phase_samples: list[Sample] = []
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._facts: dict[str, Any] = {
            "worker": 0,
            "cores": cores,
            "gc": "frozen",
            "shape": plugin.shape,
            "switch_interval_s": _SWITCH_INTERVAL_S,
            "timer_slack_ns": sharpen_timers(),
        }
        self._watch = Watch(
            self._control, self._block, orders, self._sink, Health(None, self._log, cores, {}), self._abandon
        )

    def run(self) -> None:
        """Open the system, drive every phase, close it."""
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._watch.start()
        try:
            sut = self._open()
            with ExitStack() as profiling:
                if self._plugin.traces is not None:
                    _ask("profile", lambda: profiling.enter_context(sut.profile()))
                self._drive(sut)
                _ask("profile", profiling.close)
            _ask("unload", sut.unload)
        except _SystemError as error:
            print(error, file=sys.stderr)
            if not self._block.reason(self._number):
                self._block.finish(self._number, "sut_failed", monotonic_ns())
        finally:
            self._close()

    def _drive(self, sut: SUT) -> None:
        if self._plugin.shape == "async" and isinstance(sut, AsyncSUT):
            _run_loop(self._phases_on_loop(sut))
            return
        engine = make_engine(sut, self._plugin.shape, self._sink, self._sample_of, self._flush)
        apart = self._plugin.isolation == "subprocess"
        with issuer(self._store.folder) if apart else nullcontext() as line:
            self._phases(engine, line)

    def _open(self) -> SUT:
        sut = self._sut = _ask("the plugin", self._plugin.make)
        _ask("open", sut.open)
        claims = _ask("describe", lambda: dict(sut.describe()))
        _ask("describe", lambda: write_json(self._store.folder / CLAIMS, claims))
        self._library = read_samples(self._store.folder)
        _ask("load", lambda: sut.load(list(self._library.values())))
        return sut

    def _phases(self, engine: Engine, line: Line | None) -> None:
        """Drive them in this thread; schedules are issued by whoever is at the other end of ``line``."""
        self._facts.update(loop=None, pacer="sleep+spin")
        for number, phase in enumerate(self._store.phases):
            part, orders = self._share(number), self._orders.phases[number]
            content = self._content(number)
            driven: ThreadedPhase
            if line is not None and is_schedule(orders, part):
                driven = ApartPhase(part, number, engine, self._sink, content.samples, line)
                self._await_issuer(line)
            else:
                driven = _threaded_phase(orders, part, engine, self._sink, content, by_sample=phase.by_sample)
            self._announce(number)
            while not (released := self._released(number)) and not self._unwanted():
                time.sleep(_PERMISSION_S)
            if released:
                self._watch.begin(number, driven, part.first_seq, phase.samples)
                self._finish(number, driven.run(self._control.epoch_ns(number)))
            else:
                self._finish(number, self._watch.stop_reason())
            if self._block.reason(number) in FATAL:
                break
        engine.close()

    def _await_issuer(self, line: Line) -> None:
        while not line.ready:
            if line.broken:
                raise _SystemError("the issuer's process ended before it began")
            time.sleep(_PERMISSION_S)

    async def _phases_on_loop(self, sut: AsyncSUT) -> None:
        """Drive them on one event loop, which engines may bind themselves to."""
        for number, phase in enumerate(self._store.phases):
            driven = self._loop_phase(sut, self._share(number), number)
            loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
            self._facts.update(loop=loop, pacer=driven.pacer_name)
            self._announce(number)
            while not (released := self._released(number)) and not self._unwanted():
                await asyncio.sleep(_PERMISSION_S)
            if released:
                self._watch.begin(number, driven, self._store.first_seq[number], phase.samples)
                self._finish(number, await driven.run(self._control.epoch_ns(number)))
            else:
                self._finish(number, self._watch.stop_reason())
            if self._block.reason(number) in FATAL:
                return

    def _loop_phase(self, sut: AsyncSUT, part: Share, number: int) -> LoopPhase | LoopStreamPhase:
        """The way to drive a phase on the loop that suits the scenario."""
        phase, orders = self._store.phases[number], self._orders.phases[number]
        if phase.by_sample:
            orders = replace(orders, slots=sut.max_in_flight or part.units)
        elif is_stream(orders, part):
            samples = self._phase_samples
            return LoopStreamPhase(part, orders.limits, sut, self._sink, samples, self._flush)
        policy = make_policy(orders, part.units, part.due_ns, 0, 1)
        sender = TaskSender(sut, self._sink, self._sample_of)
        return LoopPhase(part, policy, sender, self._flush, self._orders.pacer)

    def _share(self, number: int) -> Share:
        """All of a phase: there is one worker."""
        self._number = number
        phase = self._store.phases[number]
        self._phase_samples = _pick(self._library, phase.sample_index)
        return Share.of(phase, self._store.first_seq[number], 0, 1)

    def _content(self, number: int) -> QueryBlock:
        """All samples of a phase."""
        first, phase = self._store.first_seq[number], self._store.phases[number]
        seqs = np.arange(first, first + phase.samples, dtype=np.int64)
        return QueryBlock(seqs, phase.sample_index, self._phase_samples)

    def _sample_of(self, seq: int) -> Sample:
        return self._phase_samples[seq - self._store.first_seq[self._number]]

    def _announce(self, number: int) -> None:
        """Say that phase ``number`` may start."""
        write_json(self._store.folder / "worker-0.json", self._facts)
        freeze_heap()
        self._block.ready = number + 1

    def _released(self, number: int) -> bool:
        return self._control.released > number

    def _unwanted(self) -> bool:
        return bool(self._control.stop_level) or self._watch.orphaned()

    def _finish(self, number: int, reason: str) -> None:
        self._watch.end()
        self._block.finish(number, self._watch.fatal or reason, monotonic_ns())

    def _flush(self) -> None:
        """Pass the end of a phase on; a system that fails here ends the run."""
        assert self._sut is not None
        try:
            self._sut.flush()
        except Exception as error:  # noqa: BLE001 - the system's own failure, and it ends the run
            traceback.print_exc()
            print(f"flush: {type(error).__name__}: {error}", file=sys.stderr)
            self._watch.fatal = self._watch.fatal or "sut_failed"

    def _crashed(self, error: BaseException) -> None:
        """Nothing that is stamped from here on could be kept."""
        self._watch.fatal = "disk_full" if isinstance(error, DiskFullError) else "worker_died"

    def _close(self) -> None:
        """Close the system, once, whoever comes first."""
        if not self._closed.acquire(blocking=False):
            return
        if self._sut is not None:
            try:
                self._sut.close()
            except Exception as error:  # noqa: BLE001 - the run is over, and its evidence stands
                print(f"close: {type(error).__name__}: {error}", file=sys.stderr)

    def _abandon(self, reason: str, detail: str) -> None:
        """The system holds the issuing thread and will not let go: close what can be closed, and leave."""
        self._sink.finished = None
        now = monotonic_ns()
        first = self._store.first_seq[self._number]
        for seq in range(first, first + self._store.phases[self._number].samples):
            self._sink.give_up(seq, now, "aborted")
        print(detail, file=sys.stderr, flush=True)
        self._block.finish(self._number, reason, monotonic_ns())
        closing = threading.Thread(target=self._close, daemon=True)
        closing.start()
        closing.join(_CLOSE_PATIENCE_S)
        os._exit(0)


def _pick(library: Mapping[int, Sample], indexes: Int64s) -> list[Sample]:
    """The samples ``indexes``; block by block, for a list of a million numbers is larger than the samples."""
    picked: list[Sample] = [library[int(indexes[0])]] * len(indexes)
    for start in range(0, len(indexes), _BLOCK):
        block = indexes[start : start + _BLOCK].tolist()
        picked[start : start + len(block)] = map(library.__getitem__, block)
    return picked


def make_engine(
    sut: SUT, shape: Shape, sink: EventSink, sample_of: SampleOf, flush: Callable[[], None]
) -> Engine:
    """The engine of the shape that was picked."""
    if shape == "sync" and isinstance(sut, SyncSUT):
        return SyncEngine(sut, sink, sample_of, flush)
    if shape == "batch" and isinstance(sut, BatchSUT):
        return BatchEngine(sut, sink, sample_of, flush)
    if shape == "callback" and isinstance(sut, CallbackSUT):
        return CallbackEngine(sut, sink, sample_of, flush)
    raise _SystemError(f"the system is not of the shape {shape}")


def _threaded_phase(
    orders: PhaseOrders, part: Share, engine: Engine, sink: EventSink, content: QueryBlock, *, by_sample: bool
) -> ThreadedPhase:
    """The way to drive a phase that suits scenario and engine."""
    if by_sample and orders.warmup is None and engine.takes_slices:
        return SlicePhase(part, orders.limits, engine, sink, content)
    if by_sample:
        orders = replace(orders, slots=min(engine.at_once, part.units))
    policy = make_policy(orders, part.units, part.due_ns, 0, 1)
    samples = 1 if part.offsets is None else part.offsets[1] - part.offsets[0]
    if not by_sample and is_schedule(orders, part):
        return SchedulePhase(part, orders.limits, engine, sink, content.samples)
    if not by_sample and is_stream(orders, part):
        return StreamPhase(part, orders.limits, engine, sink, content.samples)
    if orders.slots == 1 and engine.answers_here(samples):
        return SolePhase(part, policy, engine, sink)
    return ThreadPhase(part, policy, engine, sink)


def _ask(what: str, call: Callable[[], T]) -> T:
    """Call into the system; what it raises is its failure, with the traceback in the log."""
    try:
        return call()
    except FairmarkError as error:
        raise _SystemError(str(error)) from error
    except Exception as error:
        traceback.print_exc()
        raise _SystemError(f"{what}: {type(error).__name__}: {error}") from error


def _run_loop(main_task: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main_task)
    else:
        uvloop.run(main_task)


def main(arguments: Sequence[str]) -> None:
    """Run the worker on the live store ``arguments[0]``."""
    folder = Path(arguments[0])
    store = open_store(folder)
    try:
        worker = Worker(store, read_orders(folder), read_plugin(folder))
    except DiskFullError as error:
        print(error, file=sys.stderr)
        store.control().workers[0].finish(0, "disk_full", monotonic_ns())
    else:
        worker.run()
        sys.stderr.flush()
        # Threads of an engine must not keep the process.
        os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
