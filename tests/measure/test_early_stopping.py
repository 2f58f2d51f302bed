"""LoadGen's early stopping: tables made with its compiled C++ (early_stopping.cc)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from fairmark.measure.stopping import queries_needed, tail_size

OVER = [0, 1, 2, 3, 4, 5, 10, 20, 50, 100]
UNDER = {
    90: [44, 63, 79, 94, 109, 122, 187, 305, 631, 1146],
    95: [90, 129, 163, 195, 225, 254, 388, 636, 1322, 2404],
    97: [152, 218, 275, 329, 379, 428, 657, 1077, 2243, 4082],
    99: [459, 661, 836, 998, 1153, 1302, 2000, 3284, 6848, 12471],
    99.9: [4603, 6635, 8401, 10039, 11597, 13100, 20130, 33077, 69008, 125726],
}
TAILS = [
    (63, 90, 0),
    (64, 90, 1),
    (128, 90, 5),
    (256, 90, 14),
    (662, 90, 48),
    (1000, 90, 78),
    (1024, 90, 80),
    (2048, 90, 173),
    (6636, 90, 606),
    (10000, 90, 930),
    (24576, 90, 2348),
    (270336, 90, 26670),
    (661, 99, 0),
    (662, 99, 1),
    (1000, 99, 2),
    (1024, 99, 3),
    (2048, 99, 10),
    (6636, 99, 47),
    (10000, 99, 77),
    (24576, 99, 209),
    (270336, 99, 2583),
    (6635, 99.9, 0),
    (6636, 99.9, 1),
    (10000, 99.9, 2),
    (24576, 99.9, 13),
]


@pytest.mark.parametrize("percent", list(UNDER))
def test_property_30_queries_under_the_bound(percent: float) -> None:
    needed = [queries_needed(t, percent * 0.01) - t for t in OVER]
    assert needed == UNDER[percent]


@pytest.mark.parametrize(("n", "percent", "t"), TAILS)
def test_the_tail_that_n_queries_allow(n: int, percent: float, t: int) -> None:
    assert tail_size(n, percent * 0.01) == t


@given(n=st.integers(1, 10**6), percent=st.sampled_from(list(UNDER)))
def test_the_tail_equals_the_exact_binomial(n: int, percent: float) -> None:
    p = percent * 0.01
    t = tail_size(n, p)
    assert t == 0 or binom.cdf(t, n, 1 - p) < 0.01
    assert binom.cdf(t + 1, n, 1 - p) >= 0.01


def test_ten_million_queries() -> None:
    t = tail_size(10**7, 0.99)
    assert queries_needed(t, 0.99) <= 10**7 < queries_needed(t + 1, 0.99)
