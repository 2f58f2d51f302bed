"""The four shapes, each as a way to hand queries over: now, in this thread, or to threads of its own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic_ns
from typing import Any, Final, Protocol

import numpy as np

from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import ENDED
from fairmark.samples.sample import Sample
from fairmark.sut.api import BatchSUT, CallbackSUT, Query, QueryBlock, SyncSUT

__all__ = ["BatchEngine", "CallbackEngine", "Engine", "SampleOf", "SyncEngine"]

SampleOf = Callable[[int], Sample]
"""The sample of a seq."""

_CLOSE: Final = -1
_FLUSH: Final = -2


class Engine(Protocol):
    """A system in one of the shapes that threads drive."""

    @property
    def at_once(self) -> int:
        """How many samples of the one Offline query it takes at once."""

    @property
    def takes_slices(self) -> bool:
        """Whether it wants many samples in one call."""

    def answers_here(self, samples: int) -> bool:
        """Whether `answer` may take a query of so many samples, when nothing else is in flight."""

    def answer_one(self, seq: int, sample: Sample) -> None:
        """Answer one issued query and return when it has ended."""

    def answer(self, seqs: range) -> None:
        """Answer the issued queries ``seqs`` and return when they have ended."""

    def answer_block(self, block: QueryBlock) -> None:
        """Answer the issued samples of the one Offline query, at most `at_once` of them."""

    def hand_one(self, seq: int, sample: Sample) -> None:
        """Take one issued query and return at once."""

    def hand(self, seqs: range) -> None:
        """Take the issued queries ``seqs`` and return at once."""

    def flush(self) -> None:
        """Nothing more is handed over in this phase."""

    def close(self) -> None:
        """End threads that are at rest."""


class SyncEngine:
    """`SyncSUT`: threads that take queries one by one, or this one."""

    takes_slices = False

    def __init__(self, sut: SyncSUT, sink: EventSink, sample_of: SampleOf, flush: Callable[[], None]) -> None:
        self._generate = sut.generate
        self._sink = sink
        self._sample_of = sample_of
        self._inbox: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._flush = flush
        self.at_once = sut.concurrency

    def answers_here(self, samples: int) -> bool:
        """One query at a time needs no thread; the samples of one query may share threads out."""
        return samples == 1 or self.at_once == 1

    def answer_one(self, seq: int, sample: Sample) -> None:
        """Run its generator to the end."""
        sink = self._sink
        try:
            sink.consume(seq, self._generate(sample))
        # SystemExit out of an engine must not end a thread in silence either.
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            sink.raised(seq, error)

    def answer(self, seqs: range) -> None:
        """Run the generators one after the other."""
        for seq in seqs:
            self.answer_one(seq, self._sample_of(seq))

    def answer_block(self, block: QueryBlock) -> None:
        """As `answer`."""
        for query in block:
            self.answer_one(query.seq, query.sample)

    def hand_one(self, seq: int, sample: Sample) -> None:
        """Leave it to the threads."""
        self.hand(range(seq, seq + 1))

    def hand(self, seqs: range) -> None:
        """Leave them to the threads, which are started at the first call."""
        if not self._threads:
            self._threads = [_thread(self._serve, f"sync-{n}") for n in range(self.at_once)]
        for seq in seqs:
            self._inbox.put(seq)

    def flush(self) -> None:
        """Nothing waits to be filled."""
        self._flush()

    def close(self) -> None:
        """End the threads."""
        for _ in self._threads:
            self._inbox.put(_CLOSE)

    def _serve(self) -> None:
        while (seq := self._inbox.get()) != _CLOSE:
            if self._sink.state[seq] < ENDED:
                self.answer_one(seq, self._sample_of(seq))


class BatchEngine:
    """`BatchSUT`: slices of what there is, or a thread that gathers what arrives."""

    takes_slices = True

    def __init__(
        self, sut: BatchSUT, sink: EventSink, sample_of: SampleOf, flush: Callable[[], None]
    ) -> None:
        self._sut = sut
        self._sink = sink
        self._sample_of = sample_of
        self._inbox: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._flushed = False
        self._flush = flush
        self.at_once = sut.max_batch

    def answers_here(self, samples: int) -> bool:
        """With nothing else in flight there is nothing to wait for."""
        return True

    def answer_one(self, seq: int, sample: Sample) -> None:
        """Infer a batch of one."""
        self._infer((seq,), [sample])

    def answer(self, seqs: range) -> None:
        """Infer in slices of the largest batch."""
        for start in range(0, len(seqs), self.at_once):
            self._infer_of(seqs[start : start + self.at_once])

    def answer_block(self, block: QueryBlock) -> None:
        """Infer all of it at once."""
        first = int(block.seq[0])
        self._infer(range(first, first + len(block)), block.samples)

    def hand_one(self, seq: int, sample: Sample) -> None:
        """Leave it to the gathering thread."""
        self.hand(range(seq, seq + 1))

    def hand(self, seqs: range) -> None:
        """Leave them to the gathering thread, which is started at the first call."""
        self._flushed = False
        if self._thread is None:
            self._thread = _thread(self._gather, "batch")
        for seq in seqs:
            self._inbox.put(seq)

    def flush(self) -> None:
        """Do not wait any more."""
        self._flushed = True
        self._inbox.put(_FLUSH)
        self._flush()

    def close(self) -> None:
        """End the thread."""
        self._inbox.put(_CLOSE)

    def _gather(self) -> None:
        while (seq := self._inbox.get()) != _CLOSE:
            if seq == _FLUSH:
                continue
            batch = [seq]
            closing = self._fill(batch, monotonic_ns() + round(self._sut.max_wait_ms * 1e6))
            self._infer_of([seq for seq in batch if self._sink.state[seq] < ENDED])
            if closing:
                return

    def _fill(self, batch: list[int], until_ns: int) -> bool:
        """Add what arrives until the batch is full or its time is over; whether to close afterwards."""
        while len(batch) < self.at_once:
            left_s = 0.0 if self._flushed else (until_ns - monotonic_ns()) / 1e9
            try:
                seq = self._inbox.get(timeout=left_s) if left_s > 0 else self._inbox.get_nowait()
            except queue.Empty:
                return False
            if seq == _CLOSE:
                return True
            if seq != _FLUSH:
                batch.append(seq)
        return False

    def _infer_of(self, seqs: Sequence[int]) -> None:
        if seqs:
            self._infer(seqs, [self._sample_of(seq) for seq in seqs])

    def _infer(self, seqs: Sequence[int], samples: Sequence[Sample]) -> None:
        sink = self._sink
        try:
            answers: Any = self._sut.infer(samples)
            if isinstance(answers, (list, tuple)):
                if sink.done_all(seqs, answers):
                    return
            else:
                self._take_each(seqs, answers)
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            for seq in seqs:
                if sink.state[seq] < ENDED:
                    sink.raised(seq, error)
        for seq in seqs:
            if sink.state[seq] < ENDED:
                sink.no_end(seq)

    def _take_each(self, seqs: Sequence[int], answers: Iterable[tuple[int, Any]]) -> None:
        event, size = self._sink.event, len(seqs)
        for pair in answers:
            position, value = pair
            if isinstance(position, int) and 0 <= position < size:
                event(seqs[position], value)
            else:
                remark = f"{type(value).__name__} at position {position!r}"
                self._sink.violate("unknown_seq", None, monotonic_ns(), remark)


class CallbackEngine:
    """`CallbackSUT`: it has its own threads, and reports to the sink."""

    takes_slices = True

    def __init__(
        self, sut: CallbackSUT, sink: EventSink, sample_of: SampleOf, flush: Callable[[], None]
    ) -> None:
        self._issue = sut.issue
        self._issue_block = sut.issue_block
        self._flush = flush
        self._sink = sink
        self._outcome = sink.stamps.outcome
        self._sample_of = sample_of
        self._ended: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.at_once = 1 << 62

    def answers_here(self, samples: int) -> bool:
        """Most engines answer a single query before they return."""
        return True

    def answer_one(self, seq: int, sample: Sample) -> None:
        """Issue it, and wait if it has not ended on return."""
        self.hand_one(seq, sample)
        if not self._outcome[seq]:
            self._await(seq)

    def answer(self, seqs: range) -> None:
        """Issue, and wait for what has not ended on return."""
        self.hand(seqs)
        for seq in seqs:
            self._await(seq)

    def answer_block(self, block: QueryBlock) -> None:
        """Issue it as it is."""
        seqs = range(first := int(block.seq[0]), first + len(block))
        try:
            self._issue_block(block, self._sink)
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            self._raised(seqs, error)
        outcomes = np.frombuffer(self._outcome, dtype=np.int64)[seqs.start : seqs.stop]
        for position in np.flatnonzero(outcomes == 0).tolist():
            self._await(first + position)

    def hand_one(self, seq: int, sample: Sample) -> None:
        """Issue it."""
        try:
            self._issue([Query(seq, sample)], self._sink)
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            self._raised((seq,), error)

    def hand(self, seqs: range) -> None:
        """Issue all of them in one call."""
        sample_of = self._sample_of
        try:
            self._issue([Query(seq, sample_of(seq)) for seq in seqs], self._sink)
        except BaseException as error:  # noqa: BLE001 - recorded as the query's failure
            self._raised(seqs, error)

    def flush(self) -> None:
        """Pass it on."""
        self._flush()

    def close(self) -> None:
        """Its threads are its own."""

    def _await(self, seq: int) -> None:
        """Return when ``seq`` has ended; what ended before anybody listened is seen in its outcome."""
        self._sink.finished = self._ended.put
        while not self._outcome[seq]:
            self._ended.get()
        self._sink.finished = None

    def _raised(self, seqs: Sequence[int], error: BaseException) -> None:
        for seq in seqs:
            if self._sink.state[seq] < ENDED:
                self._sink.raised(seq, error)


def _thread(target: Callable[[], None], name: str) -> threading.Thread:
    """Engines hang; a thread that is in one must not keep the process alive."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread
