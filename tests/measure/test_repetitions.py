"""The spread over repetitions, against hand-computed values and scipy."""

from __future__ import annotations

import math
from statistics import mean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from fairmark.measure.repetitions import SPREAD_OF, spread


def phase(qps, failure_rate=0.0):
    return {"rates": {"qps": qps, "reasons": {}}, "counts": {"failure_rate": failure_rate}}


def test_by_hand():
    found = spread([phase(4.0), phase(6.0), phase(5.0)])["rates.qps"]
    assert found["values"] == [4.0, 6.0, 5.0]
    assert (found["mean"], found["min"], found["max"], found["sd"]) == (5.0, 4.0, 6.0, 1.0)
    assert found["interval"] == {"undefined": "needs 5 repetitions, has 3"}


def test_what_a_repetition_lacks_has_no_spread():
    found = spread([phase(4.0), phase(None), phase(5.0)])
    assert found["rates.qps"] == {"undefined": "not every repetition has it: 1 of 3 do not"}
    assert "undefined" in found["latency.ttft_ns.from_schedule.p99_ns"]
    assert set(found) == set(SPREAD_OF)
    assert "undefined" in spread([phase(4.0)])["rates.qps"]


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1e9), min_size=5, max_size=12))
def test_the_interval_is_students(values):
    found = spread([phase(value) for value in values])["rates.qps"]
    half = float(student.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    assert found["mean"] == pytest.approx(mean(values))
    assert found["interval"]["high"] - found["interval"]["low"] == pytest.approx(2 * half, abs=1e-6)


def test_the_interval_covers_the_mean_of_runs_at_its_level():
    import numpy as np

    random = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        interval = spread([phase(float(v)) for v in random.normal(10.0, 2.0, 6)])["rates.qps"]["interval"]
        held += interval["low"] <= 10.0 <= interval["high"]
    assert 0.93 <= held / 1000 <= 0.97
