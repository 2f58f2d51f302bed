"""LoadGen's search for the peak rate, given what holds at each."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.traffic.find_peak import Probe, find_peak


def test_property_52_the_probes_of_a_search() -> None:
    search = find_peak(lambda qps: qps <= 499.9, 50.0, decimals=0)
    up, halves = [50, 100, 200, 400, 800], [600, 500, 450, 475, 487.5, 493.75, 496.875, 498.4375, 499.21875]
    assert [probe.qps for probe in search.probes] == up + halves
    assert search.peak_qps == 499.21875


def test_property_52_a_failing_base_ends_the_search() -> None:
    search = find_peak(lambda qps: False, 50.0)
    assert search.probes == (Probe(50.0, False),)
    assert search.peak_qps is None


@given(
    base=st.floats(0.01, 1e4), over=st.floats(1.0, 1e3), decimals=st.integers(0, 3), step=st.integers(1, 5)
)
def test_the_peak_is_within_the_precision(base: float, over: float, decimals: int, step: int) -> None:
    limit = base * over
    search = find_peak(lambda qps: qps <= limit, base, decimals=decimals, step=step)
    peak = search.peak_qps
    failing = min(probe.qps for probe in search.probes if not probe.holds)
    assert peak is not None
    assert peak <= limit < failing
    assert math.floor(failing * 10**decimals) - math.floor(peak * 10**decimals) <= 1


def test_a_search_that_would_not_end_is_refused() -> None:
    with pytest.raises(ValueError, match="holds at every rate"):
        find_peak(lambda qps: True, 50.0)
    for wrong in ({"base_qps": 0.0}, {"base_qps": math.nan}, {"base_qps": 1.0, "step": 0}):
        with pytest.raises(ValueError, match="find-peak needs"):
            find_peak(lambda qps: True, **wrong)
