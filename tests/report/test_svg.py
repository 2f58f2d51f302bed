"""Axes and thinning: round ticks inside the range, and no peak lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.report.charts import _curve_points, _thinned
from fairmark.report.svg import Axis, Frame, dots, path, render

ENDS = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6)).filter(lambda e: e[0] + e[1] > e[0])


@given(ENDS, st.integers(2, 14))
def test_ticks_are_round_inside_and_few(ends: tuple[float, float], about: int) -> None:
    low, span = ends
    axis = Axis("x", low, low + span)
    ticks = axis.ticks(about)
    assert len(ticks) <= about + 1
    assert all(low - span * 1e-6 <= t <= low + span * (1 + 1e-6) for t in ticks)


@pytest.mark.parametrize(
    ("low", "high", "about", "ticks"),
    [
        (0, 100, 5, [0, 20, 40, 60, 80, 100]),
        (0, 83, 5, [0, 20, 40, 60, 80]),
        (-1.3, 0.9, 4, [-1, 0]),
        (0, 0.004, 4, [0, 0.001, 0.002, 0.003, 0.004]),
    ],
)
def test_ticks_by_hand(low: float, high: float, about: int, ticks: list[float]) -> None:
    assert Axis("x", low, high).ticks(about) == pytest.approx(ticks)


def test_logarithmic_ticks_and_positions() -> None:
    axis = Axis("x", 1, 1000, log=True)
    assert axis.ticks(5) == [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    assert [axis.position(v) for v in (1, 10, 100, 1000, 5000, 0)] == pytest.approx(
        [0, 1 / 3, 2 / 3, 1, 1, 0]
    )
    assert Axis("x", 1, 1e6, log=True).ticks(5) == pytest.approx([1, 10, 100, 1e3, 1e4, 1e5, 1e6])


def test_corners_of_the_frame() -> None:
    frame = Frame(Axis("x", 0, 10), Axis("y", 0, 1))
    assert (frame.at_x(0), frame.at_x(10)) == (60, 348)
    assert (frame.at_y(0), frame.at_y(1)) == (194, 16)


def test_marks_by_hand() -> None:
    frame = Frame(Axis("x", 0, 10), Axis("y", 0, 1))
    assert path(frame, [0, 10], [0, 1], "one") == '<path class="line one" d="M60.0 194.0L348.0 16.0"/>'
    assert path(frame, [0, 10], [0, 1], "one", steps=True).endswith('d="M60.0 194.0H348.0V16.0"/>')
    assert dots(frame, [5], [0.5], "two") == '<path class="dots two" d="M204.0 105.0h0"/>'
    assert path(frame, [], [], "one") == dots(frame, [], [], "one") == ""
    assert 'aria-label="a &lt; b"' in render(frame, [], "a < b")


@given(st.integers(1, 20_000), st.integers(0, 2**32 - 1))
def test_thinning_keeps_extremes_and_order(n: int, seed: int) -> None:
    ys = np.random.default_rng(seed).exponential(size=n)
    kept_x, kept_y = _thinned(np.arange(n, dtype=np.float64), ys)
    assert len(kept_x) <= 2000
    assert max(kept_y) == ys.max()
    assert min(kept_y) == ys.min()
    assert kept_x == sorted(kept_x)


@given(st.integers(1, 100_000))
def test_a_curve_keeps_both_ends_and_all_of_its_tail(n: int) -> None:
    points = _curve_points(n)
    assert len(points) <= 450
    assert points[0] == 0
    assert points[-1] == n - 1
    assert set(range(max(0, n - 50), n)) <= set(points.tolist())
