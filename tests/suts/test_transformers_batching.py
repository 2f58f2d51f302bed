"""The engine's thread without an engine: what goes together, and that every request ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark import Done, Event, Failed, Sample
from fairmark.scenario.model import Generation
from fairmark_transformers.batching import Batcher, Request, pick

PATIENCE_S = 60


@given(st.lists(st.integers(1, 500), min_size=1), st.integers(1, 40))
def test_a_batch_is_the_oldest_and_those_nearest_to_it_in_length(lengths: list[int], size: int) -> None:
    chosen = pick(lengths, size)
    assert chosen == sorted(set(chosen))
    assert chosen[0] == 0
    assert len(chosen) == min(size, len(lengths))
    left = set(range(len(lengths))) - set(chosen)
    farthest = max(abs(lengths[i] - lengths[0]) for i in chosen)
    assert all(abs(lengths[i] - lengths[0]) >= farthest for i in left)


class Lengths:
    """A task: texts as long as their index; 13 cannot be tokenised and 66 breaks the engine."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.started = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()

    def tokenise(self, sample: Sample) -> Sequence[int]:
        if sample.index == 13:
            raise ValueError("no 13")
        return range(sample.index)

    def answer(self, batch: Sequence[Request], wanted: Callable[[], bool]) -> None:
        self.batches.append([request.sample.index for request in batch])
        self.started.set()
        while not self.go_on.wait(0.01):
            if not wanted():
                return
        for request in batch:
            if request.sample.index == 66:
                raise RuntimeError("boiled over")
            request.end(Done())


class Client:
    """Submits samples by index, and waits for their ends."""

    def __init__(self, batcher: Batcher) -> None:
        self.batcher = batcher
        self.ends: SimpleQueue[tuple[int, Event]] = SimpleQueue()

    def submit(self, *indexes: int) -> None:
        self.batcher.submit([self.request(index) for index in indexes])

    def request(self, index: int) -> Request:
        sample = Sample(index=index, data={}, prompt=None, generation=Generation())
        return Request(sample, lambda event: self.ends.put((index, event)))

    def wait(self, count: int) -> dict[int, Event]:
        got = [self.ends.get(timeout=PATIENCE_S) for _ in range(count)]
        assert len(dict(got)) == count
        return dict(got)


@pytest.fixture
def task() -> Lengths:
    return Lengths()


@pytest.fixture
def client(task: Lengths) -> Client:
    return Client(Batcher(task, max_batch=3))


def test_what_arrives_together_goes_in_batches_of_like_length(task: Lengths, client: Client) -> None:
    client.submit(50, 1, 51, 2, 52, 3, 53)
    assert all(end == Done() for end in client.wait(7).values())
    assert task.batches == [[50, 51, 52], [1, 2, 3], [53]]


def test_what_arrives_during_a_batch_waits_for_its_end(task: Lengths, client: Client) -> None:
    task.go_on.clear()
    client.submit(5)
    assert task.started.wait(PATIENCE_S)
    client.submit(6)
    client.submit(7)
    task.go_on.set()
    client.wait(3)
    assert task.batches == [[5], [6, 7]]


def test_failures_are_those_of_the_query_or_of_the_batch(client: Client) -> None:
    client.submit(13, 65, 66, 67)
    ends = client.wait(4)
    assert ends[13] == Failed("engine_error", "ValueError: no 13")
    # 65 had ended before the batch broke.
    assert ends[65] == Done()
    assert ends[66] == ends[67] == Failed("engine_error", "RuntimeError: boiled over")


def test_a_call_runs_between_batches_and_raises_where_it_was_made(task: Lengths, client: Client) -> None:
    assert client.batcher.call(lambda: threading.current_thread().name) == "transformers"
    with pytest.raises(ZeroDivisionError):
        client.batcher.call(lambda: 1 // 0)
    client.submit(4)
    assert client.wait(1) == {4: Done()}


def test_closing_ends_the_batch_in_flight(task: Lengths, client: Client) -> None:
    task.go_on.clear()
    client.submit(5)
    assert task.started.wait(PATIENCE_S)
    client.batcher.close(PATIENCE_S)
    assert client.wait(1) == {5: Failed("cancelled", "the system was closed")}
