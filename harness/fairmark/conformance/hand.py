"""Queries handed to a system in this process step by step, through the driver's own engines and sink."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from time import monotonic_ns
from typing import Any, Final

from fairmark.drive.inprocess.engine import BatchEngine, CallbackEngine, Engine, SyncEngine
from fairmark.drive.inprocess.loop_phase import TaskSender
from fairmark.drive.inprocess.plugin import Shape
from fairmark.drive.inprocess.sink import EventSink, SharedLog
from fairmark.drive.inprocess.states import ENDED
from fairmark.evidence.recorded import CHUNK, ENDING
from fairmark.evidence.recorded_answer import recorded_answer
from fairmark.evidence.store import DETAIL, Stamps
from fairmark.samples.sample import Sample
from fairmark.sut.api import SUT, AsyncSUT, BatchSUT, CallbackSUT, SyncSUT

__all__ = ["Hand"]

_MOST: Final = 1024
"""Queries of one life; far more than it has."""

_HANDED: Final = 12
_BEGIN_S: Final = 0.05
"""How long queries may run before they are given up."""


_ENGINES: Final = re.compile(r"sync-\d+|batch")
"""Names of threads that the driver's engines start when queries are first handed over."""

_REST_S: Final = 5.0
"""How long an event loop may take to come to rest."""


class _Records(SharedLog):
    """A log in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int, int, bytes]] = []

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        self.kept.append((kind, seq, t_ns, bytes(data)))


class Hand:
    """Asks one opened system.

    Args:
        patience_s: how long to wait for the answers to one call.
        flushing: entered around each flush.

    Attributes:
        threads: its own threads, which a system may hold for ever.
    """

    def __init__(
        self, sut: SUT, shape: Shape, patience_s: float, flushing: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.threads: set[threading.Thread] = set()
        self._flushing = flushing
        self._patience_s = patience_s
        self._samples: list[Sample] = []
        self._log = _Records()
        cells = (memoryview(bytearray(8 * _MOST)).cast("q") for _ in Stamps._fields)
        self._sink = EventSink(Stamps(*cells), self._log, _MOST, self._crashed)
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._crash: BaseException | None = None
        self._engine: Engine | _LoopThread
        if isinstance(sut, AsyncSUT) and shape == "async":
            self._engine = _LoopThread(sut, self._sink, self._sample_of)
            self.threads.add(self._engine.thread)
        else:
            self._engine = _engine(sut, self._sink, self._sample_of)

    def ask(self, samples: Sequence[Sample]) -> list[dict[str, Any]]:
        """The answers to ``samples``, in their order: ``failure``, ``detail`` and ``answer``."""
        seqs = self._hand(samples)
        self._flush()
        self._await(seqs)
        self._give_up(seqs, "timeout")
        return [self._answer(seq) for seq in seqs]

    def flushed(self, samples: Sequence[Sample]) -> Mapping[str, Any]:
        """Hand over more than most take at once, flush, and count how many end."""
        seqs = self._hand([samples[n % 2] for n in range(_HANDED)])
        start_s = time.monotonic()
        self._flush()
        took_s = time.monotonic() - start_s
        self._await(seqs)
        missing = self._give_up(seqs, "timeout")
        return {"handed": _HANDED, "missing": missing, "returned_after_s": took_s}

    def gave_up(self, samples: Sequence[Sample]) -> int:
        """Hand some over and give them up when they have hardly begun; how many had not ended."""
        seqs = self._hand(samples[:2])
        time.sleep(_BEGIN_S)
        given_up = self._give_up(seqs, "timeout")
        self._flush()
        return given_up

    def close(self) -> None:
        """End its own threads, or those of them that come back."""
        self._engine.close()

    def _flush(self) -> None:
        with self._flushing():
            self._engine.flush()

    def _hand(self, samples: Sequence[Sample]) -> range:
        seqs = range(len(self._samples), len(self._samples) + len(samples))
        self._samples.extend(samples)
        self._sink.finished = self._ended.put
        if isinstance(self._engine, _LoopThread):
            self._engine.hand(seqs, self._ended)
        else:
            for seq in seqs:
                self._sink.issue(seq, monotonic_ns())
            before = set(threading.enumerate())
            self._engine.hand(seqs)
            self.threads |= {t for t in set(threading.enumerate()) - before if _ENGINES.fullmatch(t.name)}
        return seqs

    def _await(self, seqs: range) -> None:
        until_s = time.monotonic() + self._patience_s
        while any(self._sink.state[seq] < ENDED for seq in seqs) and time.monotonic() < until_s:
            try:
                self._ended.get(timeout=0.05)
            except queue.Empty:
                continue
            if self._crash is not None:
                raise self._crash

    def _give_up(self, seqs: range, kind: str) -> int:
        open_seqs = [seq for seq in seqs if self._sink.state[seq] < ENDED]
        for seq in open_seqs:
            if isinstance(self._engine, _LoopThread):
                self._engine.give_up(seq, kind)
            else:
                self._sink.give_up(seq, monotonic_ns(), kind)
        return len(open_seqs)

    def _answer(self, seq: int) -> dict[str, Any]:
        stamps = self._sink.stamps
        detail = next((d.decode() for k, s, _, d in self._log.kept if s == seq and k == DETAIL), None)
        answer, data = recorded_answer(
            ((k, t, d) for k, s, t, d in self._log.kept if s == seq and k in (CHUNK, ENDING)),
            outcome=stamps.outcome[seq],
            completed_ns=stamps.completed[seq],
            finish_reason=None,
            detail=detail,
            of_tokens=True,
        )
        text = answer.response.reasoning + answer.response.text
        return {
            "failure": answer.failure,
            "detail": answer.failure_detail or "",
            "answer": text if data is None else data.hex(),
        }

    def _sample_of(self, seq: int) -> Sample:
        return self._samples[seq]

    def _crashed(self, error: BaseException) -> None:
        self._crash = error


def _engine(sut: SUT, sink: EventSink, sample_of: Callable[[int], Sample]) -> Engine:
    """Of the first shape, in the driver's order, that has threads."""
    if isinstance(sut, SyncSUT):
        return SyncEngine(sut, sink, sample_of, sut.flush)
    if isinstance(sut, CallbackSUT):
        return CallbackEngine(sut, sink, sample_of, sut.flush)
    assert isinstance(sut, BatchSUT)
    return BatchEngine(sut, sink, sample_of, sut.flush)


class _LoopThread:
    """An event loop for systems that want one."""

    def __init__(self, sut: AsyncSUT, sink: EventSink, sample_of: Callable[[int], Sample]) -> None:
        self._loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)
        self.thread.start()
        self._sut = sut
        self._sender = asyncio.run_coroutine_threadsafe(self._make(sut, sink, sample_of), self._loop).result()

    async def _make(self, sut: AsyncSUT, sink: EventSink, sample_of: Callable[[int], Sample]) -> TaskSender:
        return TaskSender(sut, sink, sample_of)

    def hand(self, seqs: range, ended: queue.SimpleQueue[int]) -> None:
        """Make tasks of them."""
        self._sender.finished = lambda seq, *_: ended.put(seq)
        asyncio.run_coroutine_threadsafe(self._send(seqs), self._loop).result()

    async def _send(self, seqs: range) -> None:
        for seq in seqs:
            self._sender.send(seq, monotonic_ns())

    def give_up(self, seq: int, kind: str) -> None:
        """Cancel its task."""
        asyncio.run_coroutine_threadsafe(self._give_up(seq, kind), self._loop).result()

    async def _give_up(self, seq: int, kind: str) -> None:
        self._sender.give_up(seq, monotonic_ns(), kind)

    def flush(self) -> None:
        """On the loop, as the driver calls it."""
        asyncio.run_coroutine_threadsafe(self._flush(), self._loop).result()

    async def _flush(self) -> None:
        self._sut.flush()

    def close(self) -> None:
        """End tasks, the loop's own threads and the loop, as the driver does; a loop that hangs is left."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._rest(), self._loop).result(_REST_S)
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _rest(self) -> None:
        await self._sender.rest()
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()
