"""Vectorised draws against the plain algorithms, one word at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.traffic import arrivals
from fairmark.traffic.accuracy_sampling import kept_samples
from fairmark.traffic.draws import draw_bounded, draw_index, draw_unit
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.shuffle import shuffle_epochs, shuffled, skip_epochs

SEED = st.integers(0, 2**32 - 1)


def words_of(seed: int) -> Iterator[int]:
    """mt19937 as CPython has it, put into the state that Knuth's seeding gives."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ (state[-1] >> 30)) + i) & 0xFFFFFFFF)
    generator = Random()
    generator.setstate((3, (*state, 624), None))
    while True:
        yield generator.getrandbits(32)


def bounded(words: Iterator[int], size: int) -> int:
    """Lemire, "Fast random integer generation in an interval" (2019), algorithm 5."""
    product = next(words) * size
    if product % 2**32 < size:
        threshold = (2**32 - size) % size
        while product % 2**32 < threshold:
            product = next(words) * size
    return product >> 32


def plain_shuffle(words: Iterator[int], vector: list[int]) -> None:
    """libstdc++'s std::shuffle by its description: two positions a draw while the product fits."""
    n = len(vector)
    if n == 0:
        return

    def swap(i: int, j: int) -> None:
        vector[i], vector[j] = vector[j], vector[i]

    if n > 65535:
        for i in range(1, n):
            swap(i, bounded(words, i + 1))
        return
    i = 1
    if n % 2 == 0:
        swap(1, bounded(words, 2))
        i = 2
    while i < n:
        first, second = divmod(bounded(words, (i + 1) * (i + 2)), i + 2)
        swap(i, first)
        swap(i + 1, second)
        i += 2


@given(seed=st.integers(0, 2**64 - 1), counts=st.lists(st.integers(0, 1500), max_size=5))
def test_words_are_the_stream(seed: int, counts: list[int]) -> None:
    reference = words_of(seed & 0xFFFFFFFF)
    words = Mt19937(seed)
    for count in counts:
        words.peek(count + 3)
        assert words.take(count).tolist() == [next(reference) for _ in range(count)]


@given(seed=SEED, size=st.one_of(st.integers(1, 2**32 - 1), st.just(2**31 + 1)), count=st.integers(0, 300))
def test_draws_of_one_size(seed: int, size: int, count: int) -> None:
    words, reference = Mt19937(seed), words_of(seed)
    assert draw_index(words, size, count).tolist() == [bounded(reference, size) for _ in range(count)]
    assert words.take(1)[0] == next(reference)


@given(seed=SEED, sizes=st.lists(st.integers(1, 2**32 - 1), max_size=400))
def test_draws_of_many_sizes(seed: int, sizes: list[int]) -> None:
    words, reference = Mt19937(seed), words_of(seed)
    drawn = draw_bounded(words, np.array(sizes, dtype=np.uint64))
    assert drawn.tolist() == [bounded(reference, size) for size in sizes]
    assert words.take(1)[0] == next(reference)


@settings(max_examples=40, deadline=None)
@given(
    seed=SEED, size=st.one_of(st.integers(0, 300), st.sampled_from([65535, 65536])), epochs=st.integers(0, 3)
)
def test_shuffles_in_place(seed: int, size: int, epochs: int) -> None:
    words, skipping, reference = Mt19937(seed), Mt19937(seed), words_of(seed)
    vector, states = list(range(size)), []
    for _ in range(epochs):
        plain_shuffle(reference, vector)
        states += vector
    assert shuffle_epochs(words, size, epochs).tolist() == states
    skip_epochs(skipping, size, epochs)
    following = next(reference)
    assert words.take(1)[0] == following
    assert skipping.take(1)[0] == following


@given(seed=SEED)
def test_unit_draws(seed: int) -> None:
    reference = words_of(seed)
    expected = []
    for _ in range(50):
        low, high = next(reference), next(reference)
        expected.append(min((float(low) + float(high) * 2.0**32) / 2.0**64, math.nextafter(1.0, 0.0)))
    assert draw_unit(Mt19937(seed), 50).tolist() == expected


class Largest(Mt19937):
    """A stream of all-one words, whose quotient rounds up to 1."""

    def take(self, count: int) -> np.ndarray:
        return np.full(count, 2**32 - 1, dtype=np.uint32)


def test_a_unit_draw_stays_below_one() -> None:
    (value,) = draw_unit(Largest(0), 1)
    assert value == 1.0 - 2.0**-53
    assert arrivals.poisson_gaps(Largest(0), 1.0)(1).tolist() == [int(-math.log(2.0**-53) * 1e9)]


def scalar_gaps(seed: int, rate: float, count: int) -> list[int]:
    units = draw_unit(Mt19937(seed), count).tolist()
    return [int(-math.log(1.0 - unit) / rate * 1e9) for unit in units]


@given(seed=SEED, rate=st.floats(1e-6, 1e9))
def test_poisson_gaps_are_those_of_the_c_library(seed: int, rate: float) -> None:
    assert arrivals.poisson_gaps(Mt19937(seed), rate)(2000).tolist() == scalar_gaps(seed, rate, 2000)


@given(seed=SEED, rate=st.floats(1e-3, 1e6), ulps=st.integers(-6, 6))
def test_a_logarithm_that_is_off_in_its_last_bits_changes_nothing(seed: int, rate: float, ulps: int) -> None:
    """As vectorised logarithms are on some CPUs."""

    def sloppy(values: np.ndarray) -> np.ndarray:
        exact = np.array([math.log(v) for v in values.tolist()])
        return exact + ulps * np.spacing(exact)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrivals, "_log", sloppy)
        patch.setattr(arrivals, "_vector_log_is_close", lambda: True)
        assert arrivals.poisson_gaps(Mt19937(seed), rate)(300).tolist() == scalar_gaps(seed, rate, 300)


def test_whole_gaps_take_the_exact_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """At rate -log(u) * 1e9 / k the gap is k ns but for rounding: the worst place for a wrong last bit."""
    unit = float(draw_unit(Mt19937(7), 1)[0])
    rates = [-math.log(1.0 - unit) * 1e9 / k for k in range(1, 400)]
    expected = [scalar_gaps(7, rate, 1) for rate in rates]
    for direction in (-1, 1):
        monkeypatch.setattr(
            arrivals,
            "_log",
            lambda v, d=direction: np.array([math.log(x) for x in v]) * (1 + d * 2.0**-51),
        )
        monkeypatch.setattr(arrivals, "_vector_log_is_close", lambda: True)
        assert [arrivals.poisson_gaps(Mt19937(7), rate)(1).tolist() for rate in rates] == expected


def test_a_logarithm_that_is_far_off_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "_log", lambda values: np.log(values) * (1 + 1e-9))
    arrivals._vector_log_is_close.cache_clear()
    try:
        assert not arrivals._vector_log_is_close()
        assert arrivals.poisson_gaps(Mt19937(3), 10.0)(500).tolist() == scalar_gaps(3, 10.0, 500)
    finally:
        arrivals._vector_log_is_close.cache_clear()


def test_constant_gaps() -> None:
    assert arrivals.constant_gaps(3.0)(3).tolist() == [333333333] * 3


@pytest.mark.parametrize("cv", [0.25, 1.0, 2.0])
def test_gamma_gaps_have_their_mean_and_variation(cv: float) -> None:
    gaps = arrivals.gamma_gaps(Mt19937(11), 1000.0, cv)(200_000)
    assert gaps.min() >= 0
    # Six standard errors of the mean, and of the variation by its delta-method bound.
    assert abs(gaps.mean() / 1e6 - 1) < 6 * cv / math.sqrt(200_000)
    assert abs(gaps.std() / gaps.mean() / cv - 1) < 6 * math.sqrt((1 + 6 * cv**2) / 200_000)


def test_gamma_gaps_follow_the_gamma_distribution() -> None:
    from scipy.stats import gamma, kstest

    gaps = arrivals.gamma_gaps(Mt19937(5), 10.0, 0.5)(20_000)
    assert kstest(gaps / 1e8, gamma(4.0, scale=0.25).cdf).statistic < 1.95 / math.sqrt(20_000)


@given(cv=st.floats(0.01, 10), splits=st.lists(st.integers(0, 400), max_size=6))
def test_gamma_gaps_do_not_depend_on_how_they_are_asked_for(cv: float, splits: list[int]) -> None:
    whole = arrivals.gamma_gaps(Mt19937(1), 100.0, cv)(sum(splits))
    ask = arrivals.gamma_gaps(Mt19937(1), 100.0, cv)
    assert np.concatenate([np.empty(0, np.int64), *map(ask, splits)]).tolist() == whole.tolist()


def test_recorded_gaps() -> None:
    recorded = np.array([0, 5, 15], dtype=np.int64)
    once = arrivals.recorded_gaps(recorded, repeat=False)
    assert once(2).tolist() == [5, 10]
    assert once(5).tolist() == [7]
    again = arrivals.recorded_gaps(recorded, repeat=True)
    assert again(5).tolist() == [5, 10, 7, 5, 10]


def test_property_46_sampled_responses() -> None:
    kept = kept_samples(100, 0.2, 720381539243781796)
    assert len(kept) == 14
    assert kept[:5].tolist() == [5, 17, 23, 39, 50]


def test_values_behind_accuracy_sampling() -> None:
    assert draw_unit(Mt19937(5489), 4).tolist() == [
        0.1354770042967805,
        0.8350085899945795,
        0.9688677711242314,
        0.2210340429827049,
    ]
    assert draw_unit(Mt19937(0), 1)[0] == 0.5928446165166826
    assert draw_unit(Mt19937(720381539243781796), 1)[0] == 0.49069568815352677


def test_shuffle_is_a_permutation_of_one() -> None:
    assert shuffled(Mt19937(1), 1).tolist() == [0]
    assert shuffled(Mt19937(1), 0).tolist() == []
