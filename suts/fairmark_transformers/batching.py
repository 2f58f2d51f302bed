"""The engine's thread: it gathers what waits into batches of like length and has them answered."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol, TypeVar

from fairmark import Chunk, Done, Event, Failed, Sample

__all__ = ["Answering", "Batcher", "Request", "Task", "pick"]

T = TypeVar("T")


@dataclass(slots=True)
class Request:
    """One sample on its way.

    Attributes:
        report: takes its events; may be called from the engine's thread only.
        token_ids: the input, once it is tokenised.
        ended: whether its end was reported.
    """

    sample: Sample
    report: Callable[[Event], None]
    token_ids: Sequence[int] = ()
    ended: bool = False

    def chunk(self, chunk: Chunk) -> None:
        """Report a piece of output."""
        self.report(chunk)

    def end(self, event: Done | Failed) -> None:
        """Report the end."""
        self.ended = True
        self.report(event)


Answering = Callable[[], bool]
"""Whether an answer is still wanted; asked at every step."""


class Task(Protocol):
    """What a model is used for."""

    def tokenise(self, sample: Sample) -> Sequence[int]:
        """The input ids of a sample.

        Raises:
            ValueError: the model cannot take it; the message says why.
        """

    def answer(self, batch: Sequence[Request], wanted: Answering) -> None:
        """Answer a batch and end each of its requests."""


def pick(lengths: Sequence[int], size: int) -> list[int]:
    """Positions of the next batch: the oldest that waits, and those nearest to it in length.

    Rows of one batch are padded to the longest, so likes go together; and as the oldest is always among
    them, nothing waits forever. ``lengths`` are in the order of arrival and not empty.
    """
    head = lengths[0]
    nearest = sorted(range(len(lengths)), key=lambda i: (abs(lengths[i] - head), i))
    return sorted(nearest[:size])


class Batcher:
    """A thread that owns the model from the first request to the last."""

    def __init__(self, task: Task, max_batch: int) -> None:
        self._task = task
        self._max_batch = max_batch
        self._inbox: queue.SimpleQueue[Sequence[Request] | Callable[[], None] | None] = queue.SimpleQueue()
        self._waiting: list[Request] = []
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="transformers", daemon=True)
        self._thread.start()

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests that arrived together; returns at once."""
        self._inbox.put(requests)

    def call(self, what: Callable[[], T]) -> T:
        """Run ``what`` in the engine's thread between two batches, and wait for it."""
        result: Future[T] = Future()

        def work() -> None:
            try:
                result.set_result(what())
            except Exception as error:  # noqa: BLE001 - raised again where it was asked for
                result.set_exception(error)

        self._inbox.put(work)
        return result.result()

    def close(self, timeout_s: float) -> None:
        """End the thread; a batch that is being answered ends at its next step."""
        self._closing = True
        self._inbox.put(None)
        self._thread.join(timeout_s)

    def _serve(self) -> None:
        while not self._closing:
            self._gather()
            if self._waiting and not self._closing:
                chosen = pick([len(request.token_ids) for request in self._waiting], self._max_batch)
                batch = [self._waiting[i] for i in chosen]
                for i in reversed(chosen):
                    del self._waiting[i]
                self._answer(batch)

    def _gather(self) -> None:
        """Take in all that has arrived; wait only when there is nothing to do."""
        while not (self._waiting and self._inbox.empty()) and not self._closing:
            item = self._inbox.get()
            if callable(item):
                item()
                continue
            for request in item or ():
                self._take(request)

    def _take(self, request: Request) -> None:
        try:
            request.token_ids = self._task.tokenise(request.sample)
        except Exception as error:  # noqa: BLE001 - the failure of this query, in its words
            request.end(Failed("engine_error", f"{type(error).__name__}: {error}"))
        else:
            self._waiting.append(request)

    def _answer(self, batch: Sequence[Request]) -> None:
        """Every request of the batch ends, whatever the task does."""
        failed = Failed("cancelled", "the system was closed")
        try:
            self._task.answer(batch, lambda: not self._closing)
        except Exception as error:  # noqa: BLE001 - the failure of every query of the batch
            failed = Failed("engine_error", f"{type(error).__name__}: {error}")
        for request in batch:
            if not request.ended:
                request.end(failed)
