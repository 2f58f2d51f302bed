"""Which rates LoadGen's find-peak mode tries, given what holds at each.

Source: loadgen.cc:949-1092 and test_settings_internal.h:97-180 (Server only). Every probe is a whole run with
the same seeds. It holds when its performance constraint does; duration, counts and early stopping do not
matter to the search. LoadGen's final verdict is that of the probe at the peak, by all four conditions, so
that a peak can be found in an INVALID run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fairmark.traffic.settings import HIGHEST_QPS

__all__ = ["PeakSearch", "Probe", "find_peak"]


@dataclass(frozen=True, slots=True)
class Probe:
    """A rate that was tried, and whether the constraint held at it."""

    qps: float
    holds: bool


@dataclass(frozen=True, slots=True)
class PeakSearch:
    """The probes of a search, in order."""

    probes: tuple[Probe, ...]

    @property
    def peak_qps(self) -> float | None:
        """The highest rate at which the constraint held; None: not even at the first."""
        return max((probe.qps for probe in self.probes if probe.holds), default=None)


def find_peak(
    holds: Callable[[float], bool], base_qps: float, *, decimals: int = 1, step: int = 1
) -> PeakSearch:
    """Search as LoadGen does: up from the base until a probe fails, then by halves.

    Args:
        holds: runs a probe at a rate in queries a second.
        base_qps: ``server_target_qps``.
        decimals: ``server_find_peak_qps_decimals_of_precision``: the search ends when both bounds, cut after
            so many decimals, are neighbours.
        step: ``server_find_peak_qps_boundary_step_size``: each rate on the way up is 1 + step times the last.

    Raises:
        ValueError: a setting with which LoadGen's search does not end, or no rate up to 1e9 fails.
    """
    if not 0 < base_qps <= HIGHEST_QPS or step < 1 or decimals < 0:
        raise ValueError("find-peak needs a base rate above 0, a step of at least 1 and no negative decimals")
    probes: list[Probe] = []

    def probe(qps: float) -> bool:
        probes.append(Probe(qps, holds(qps)))
        return probes[-1].holds

    low = high = base_qps
    if not probe(base_qps):
        return PeakSearch(tuple(probes))
    while True:
        high = low * (1 + step)
        if high > HIGHEST_QPS:
            raise ValueError(f"the constraint holds at every rate up to {low:g} queries a second")
        if not probe(high):
            break
        low = high
    scale = 10.0**decimals
    while math.floor(low * scale) + 1 < math.floor(high * scale):
        middle = low + (high - low) / 2
        if probe(middle):
            low = middle
        else:
            high = middle
    return PeakSearch(tuple(probes))
