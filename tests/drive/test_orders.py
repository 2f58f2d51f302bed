"""Orders survive being written; shares of a phase partition it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fairmark.drive.orders import Orders, PhaseOrders, Target, WarmupOrders, read_orders
from fairmark.drive.phase import Share
from fairmark.drive.policy import Limits
from fairmark.evidence.live import LivePhase


def test_orders_are_read_as_they_were_written(tmp_path: Path) -> None:
    warmup = WarmupOrders(8, 1, 2, steady=True)
    orders = Orders(
        targets=[Target("::1", 8080, tls=True)],
        phases=[
            PhaseOrders(Limits(), slots=3, connections=3, warmup=warmup),
            PhaseOrders(Limits(5, 6, 7, 8), slots=None, connections=16, think_ns=9),
        ],
        timeout_ns=10,
        drain_ns=11,
        cores=[0, 1],
        coordinator=42,
        pacer="sleep+spin",
    )
    orders.write(tmp_path)
    assert read_orders(tmp_path) == orders


@given(st.lists(st.integers(1, 4), max_size=30), st.integers(1, 5), st.booleans())
def test_workers_shares_partition_the_samples(sizes: list[int], workers: int, by_sample: bool) -> None:
    offsets = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    samples = int(offsets[-1])
    phase = LivePhase("performance", np.arange(samples), offsets, None, by_sample)
    seen: list[int] = []
    for worker in range(workers):
        part = Share.of(phase, 100, worker, workers)
        own = [seq for unit in range(part.units) for seq in part.seqs(unit)]
        assert all(phase.worker_of(workers)[seq - 100] == worker for seq in own)
        seen += own
    assert sorted(seen) == list(range(100, 100 + samples))


def test_due_times_follow_their_queries_into_the_shares() -> None:
    due = np.arange(7, dtype=np.int64) * 10
    phase = LivePhase("performance", np.zeros(7, np.int64), np.arange(8, dtype=np.int64), due)
    parts = [Share.of(phase, 0, worker, 3) for worker in range(3)]
    assert [list(p.due_ns) for p in parts] == [[0, 30, 60], [10, 40], [20, 50]]
    assert [[list(p.seqs(u)) for u in range(p.units)] for p in parts] == [
        [[0], [3], [6]],
        [[1], [4]],
        [[2], [5]],
    ]
