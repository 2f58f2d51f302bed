"""Worked values of LoadGen 6.0.17 (libstdc++ 12), taken from the PyPI wheel and the compiled C++."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fairmark.scenario.model import Seeds
from fairmark.traffic.arrivals import poisson_gaps
from fairmark.traffic.draws import draw_index
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.plan import Plan, make_plan
from fairmark.traffic.settings import TrafficSettings
from fairmark.traffic.shuffle import shuffled

QSL = 2085463073848966840
SAMPLE = 2747215439041700203
SCHEDULE = 16159082839903944936


def settings(**changes: Any) -> TrafficSettings:
    """Server, 100 rows of which 64 are loaded, 200 qps, 500 ms, 50 queries, the seeds of MLPerf 6.1."""
    values: dict[str, Any] = {
        "scenario": "Server",
        "mode": "performance",
        "total_sample_count": 100,
        "performance_sample_count": 64,
        "accuracy_sample_count": 100,
        "target_qps": 200.0,
        "min_duration_ns": 500_000_000,
        "min_query_count": 50,
        "seeds": Seeds(QSL, SAMPLE, SCHEDULE),
    }
    return TrafficSettings(**(values | changes))


def closed(scenario: str, **changes: Any) -> Plan:
    """A 1000 qps hint, 100 ms, 70 queries."""
    base = {"scenario": scenario, "target_qps": 1000.0, "min_duration_ns": 100_000_000, "min_query_count": 70}
    return make_plan(settings(**(base | changes)))


def query(plan: Plan, number: int) -> list[int]:
    offsets = plan.query_offsets
    return plan.sample_index[offsets[number] : offsets[number + 1]].tolist()


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (QSL, [144363858, 3947231266, 1102009372]),
        (SAMPLE, [3434217556, 4095560906]),
        (SCHEDULE, [3245365415, 3615339558]),
    ],
)
def test_property_02_first_words(seed: int, words: list[int]) -> None:
    assert Mt19937(seed).take(len(words)).tolist() == words


def test_property_01_seeds_count_by_their_low_32_bits() -> None:
    low = Seeds(QSL & 0xFFFFFFFF, SAMPLE & 0xFFFFFFFF, SCHEDULE & 0xFFFFFFFF)
    assert (low.qsl, low.sample_index, low.schedule) == (3438689976, 3985416555, 2023080168)
    plan, reduced = make_plan(settings()), make_plan(settings(seeds=low))
    assert np.array_equal(plan.sample_index, reduced.sample_index)
    assert np.array_equal(plan.scheduled_ns, reduced.scheduled_ns)


def test_property_03_short_shuffles() -> None:
    words = Mt19937(QSL)
    assert shuffled(words, 10).tolist() == [1, 5, 7, 6, 0, 8, 3, 2, 9, 4]
    assert words.take(1).tolist() == [1312898738]
    assert shuffled(Mt19937(QSL), 11).tolist() == [2, 5, 1, 7, 3, 10, 9, 8, 6, 4, 0]
    assert shuffled(Mt19937(QSL), 16).tolist() == [1, 5, 13, 10, 11, 8, 12, 2, 15, 4, 6, 0, 14, 7, 3, 9]


@pytest.mark.parametrize(
    ("size", "first", "last"),
    [
        (64, [1, 5, 13, 44, 11, 37, 58, 36], None),
        (1024, [216, 267, 822, 906, 663, 580, 710, 908], None),
        (24576, [8851, 6860, 15735, 16607, 4542, 8054, 20059, 13268], None),
        (65535, [27236, 15090, 46735, 51901, 26044], 5722),
        (65536, [3434, 25598, 53455, 6674, 518], 58716),
        (204800, [3434, 105945, 53455, 80666, 172188], 148149),
    ],
)
def test_property_04_both_branches_of_the_shuffle(size: int, first: list[int], last: int | None) -> None:
    order = shuffled(Mt19937(QSL), size)
    assert order[: len(first)].tolist() == first
    assert last is None or order[-1] == last
    assert np.array_equal(np.sort(order), np.arange(size))


def test_bounded_draws() -> None:
    draws = draw_index(Mt19937(SAMPLE), 1024, 10).tolist()
    assert draws == [818, 976, 516, 292, 672, 710, 120, 666, 909, 882]


def test_property_05_performance_set() -> None:
    loaded = make_plan(settings()).sets[0].samples
    assert loaded[:8].tolist() == [1, 5, 13, 44, 11, 37, 58, 36]
    assert np.array_equal(np.sort(loaded), np.arange(64))


def test_property_06_accuracy_sets() -> None:
    first, second = make_plan(settings(mode="accuracy")).sets
    assert (len(first.samples), len(second.samples)) == (64, 36)
    assert np.array_equal(np.sort(np.concatenate([first.samples, second.samples])), np.arange(100))


def test_property_07_exponential_gaps() -> None:
    at_100 = poisson_gaps(Mt19937(SCHEDULE), 100.0)(6)
    assert at_100.tolist() == [18436540, 4579236, 12858623, 7129947, 3864066, 22483416]
    assert at_100.sum() == 69351828
    at_1 = poisson_gaps(Mt19937(SCHEDULE), 1.0)(4)
    assert at_1.tolist() == [1843654016, 457923688, 1285862316, 712994723]
    scheduled = make_plan(settings(target_qps=100.0)).scheduled_ns
    assert scheduled[:4].tolist() == [0, 18436540, 23015776, 35874399]


def test_property_08_short_server_run() -> None:
    plan = make_plan(settings())
    assert plan.query_count == 94
    assert plan.generated_duration_ns == 502832823
    assert plan.sample_index[:12].tolist() == [12, 25, 49, 53, 28, 10, 42, 13, 27, 14, 63, 24]


def full_length(**changes: Any) -> Plan:
    base = {
        "total_sample_count": 1024,
        "performance_sample_count": 1024,
        "target_qps": 100.0,
        "min_duration_ns": 600 * 10**9,
        "min_query_count": 100,
    }
    return make_plan(settings(**(base | changes)))


def test_property_09_ten_minutes_of_server() -> None:
    plan = full_length()
    assert plan.query_count == 60155
    assert plan.scheduled_ns[-1] == 600015404702
    assert plan.generated_duration_ns == 600022338666


def test_property_10_sample_order_of_ten_minutes() -> None:
    assert full_length().sample_index[:8].tolist() == [784, 618, 960, 248, 513, 635, 155, 667]


def test_ten_minutes_of_equal_issue() -> None:
    plan = full_length(sampling="equal")
    assert plan.query_count == 59 * 1024
    assert plan.scheduled_ns[-1] == 602475074396


def test_a_million_server_queries() -> None:
    changes = {"target_qps": 2e5, "min_duration_ns": 5 * 10**9, "min_query_count": 100}
    plan = make_plan(settings(**changes))
    assert plan.query_count == 1000179
    assert plan.scheduled_ns[-1] == 5000016506
    assert plan.generated_duration_ns == 5000024381
    assert plan.sample_index.nbytes + plan.scheduled_ns.nbytes == 16 * plan.query_count


def test_property_11_order_and_schedule_are_independent() -> None:
    plan = make_plan(settings())
    other_schedule = make_plan(settings(seeds=Seeds(QSL, SAMPLE, 7)))
    shared = min(plan.query_count, other_schedule.query_count)
    assert np.array_equal(plan.sample_index[:shared], other_schedule.sample_index[:shared])
    assert not np.array_equal(plan.scheduled_ns[:shared], other_schedule.scheduled_ns[:shared])
    other_order = make_plan(settings(seeds=Seeds(QSL, 7, SCHEDULE)))
    assert np.array_equal(plan.scheduled_ns, other_order.scheduled_ns)
    assert not np.array_equal(plan.sample_index, other_order.sample_index)


@pytest.mark.parametrize(("min_queries", "first"), [(1024, [784, 618, 960]), (2048, [455, 199, 607])])
def test_property_12_order_depends_on_min_query_count(min_queries: int, first: list[int]) -> None:
    plan = closed(
        "SingleStream",
        total_sample_count=1024,
        performance_sample_count=1024,
        min_query_count=min_queries,
        min_duration_ns=0,
    )
    assert plan.sample_index[:3].tolist() == first


def test_property_13_kinds_of_sampling() -> None:
    assert len(np.unique(make_plan(settings()).sample_index)) < 64
    unique = make_plan(settings(sampling="unique"))
    assert np.array_equal(np.sort(unique.sample_index), np.arange(64))
    same = make_plan(settings(sampling="same", same_index=3))
    assert np.unique(same.sample_index).tolist() == [44]
    streams = closed("MultiStream", sampling="unique")
    assert streams.query_count == 64 // 8


def test_property_14_equal_issue_server() -> None:
    plan = make_plan(settings(sampling="equal"))
    assert plan.query_count == 128
    assert plan.generated_duration_ns == 652993572
    assert plan.sample_index[:8].tolist() == [29, 15, 17, 42, 59, 51, 61, 12]
    assert np.bincount(plan.sample_index, minlength=64).tolist() == [2] * 64


def test_property_15_more_epochs_repeat_the_permutations() -> None:
    plan = make_plan(settings(sampling="equal", min_duration_ns=10**9))
    assert plan.query_count == 4 * 64
    assert np.array_equal(plan.sample_index[:64], plan.sample_index[64:128])
    longer = make_plan(settings(sampling="equal", min_duration_ns=10**9, min_query_count=65))
    assert not np.array_equal(longer.sample_index[:64], longer.sample_index[64:128])
    assert np.array_equal(longer.sample_index[:128], longer.sample_index[128:])


def test_property_16_offline_sample_count() -> None:
    plan = closed("Offline")
    assert (plan.query_count, plan.sets[0].samples_per_query, len(plan.sample_index)) == (1, 110, 110)
    equal = closed("Offline", sampling="equal")
    assert equal.sets[0].samples_per_query == 128
    assert equal.sample_index[:8].tolist() == [18, 39, 26, 42, 24, 50, 38, 61]


def test_property_17_single_stream_equal_issue() -> None:
    plan = closed("SingleStream", sampling="equal")
    assert plan.settings.effective_min_query_count == 256
    assert plan.query_count == 256
    assert plan.sample_index[:8].tolist() == [29, 15, 17, 42, 59, 51, 61, 12]
    exact_multiple = settings(
        scenario="SingleStream", sampling="equal", min_duration_ns=0, min_query_count=64
    )
    assert exact_multiple.effective_min_query_count == 128


def test_property_18_multi_stream_queries_are_contiguous() -> None:
    plan = closed("MultiStream")
    loaded = plan.sets[0].samples
    assert len(loaded) == 71
    assert loaded[64:].tolist() == loaded[:7].tolist()
    assert query(plan, 0) == [44, 11, 37, 58, 36, 60, 33, 17]
    windows = np.lib.stride_tricks.sliding_window_view(loaded, 8).tolist()
    assert all(query(plan, number) in windows for number in range(plan.query_count))


def test_property_19_closed_loops_plan_twice_the_minimum() -> None:
    plan = closed("SingleStream")
    assert plan.query_count == 201
    assert plan.scheduled_ns[-1] >= 2 * 100_000_000
    assert plan.sample_index[:12].tolist() == [30, 51, 21, 56, 35, 26, 29, 18, 33, 61, 17, 9]


def test_accuracy_orders() -> None:
    server = make_plan(settings(mode="accuracy"))
    assert server.sample_index[:8].tolist() == [28, 71, 58, 37, 21, 81, 11, 84]
    assert np.array_equal(np.sort(server.sample_index), np.arange(100))
    streams = closed("MultiStream", mode="accuracy")
    assert [s.end_query - s.first_query for s in streams.sets] == [8, 5]
    assert set(streams.sample_index.tolist()) == set(range(100))
    offline = closed("Offline", mode="accuracy")
    assert [s.samples_per_query for s in offline.sets] == [64, 36]
    assert np.array_equal(np.sort(offline.sample_index), np.arange(100))
