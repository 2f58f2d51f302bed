"""Samples in flight, and Little's law: an identity on the log, and a question to the server."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import Int64s, between, floats, int64s, kinds, select, tally, total
from fairmark.measure.phase import Phase
from fairmark.measure.undefined import group, undefined

__all__ = ["concurrency", "integrate_in_flight"]

RUNNING: Final = "requests_running"
WAITING: Final = "requests_waiting"
"""Telemetry names that a sampler gives the server's own gauges."""


def integrate_in_flight(start: Int64s, end: Int64s) -> tuple[int, int]:
    """Time integral (ns) and maximum of the number of samples in flight, by sweeping over the stamps.

    A sample that ends when another starts is not in flight with it.
    """
    times = np.concatenate([end, start])
    steps = np.concatenate([np.full(len(end), -1), np.ones(len(start), dtype=np.int64)])
    order = np.lexsort((steps, times))
    in_flight = np.cumsum(steps[order])
    return total(in_flight[:-1] * np.diff(times[order])), int(max(in_flight.max(), 0))


def concurrency(phase: Phase, telemetry: pa.Table) -> dict[str, Any]:
    """L, lambda and W over the whole window.

    With sojourns clipped to the window L = lambda * W is an identity; its residual is rounding, unless a
    sample ends before it starts. ``naive_residual`` leaves the boundary terms out (successes only,
    unclipped), so it grows with failures and with what was cut off.
    """
    if not len(phase):
        return undefined("nothing was issued")
    start, end = phase.start_ns, int(phase.done.max())
    if end <= start:
        return undefined("the window has no length")
    window = end - start
    area, most = integrate_in_flight(phase.issued, phase.done)
    sojourns = np.maximum(phase.done - phase.issued, 0)
    length, in_system = area / window, total(sojourns)
    if length <= 0:
        return undefined("no sample was in flight for any time")
    served = phase.completed[phase.ok] - phase.issued[phase.ok]
    naive = total(served) / window if len(served) else None
    return group(
        {
            "mean_in_flight": length,
            "max_in_flight": most,
            "arrival_qps": len(phase) / window * 1e9,
            "mean_sojourn_ns": in_system / len(phase),
            "identity_residual": abs(area - in_system) / area,
            "naive_residual": None if naive is None else abs(length - naive) / length,
            "server": _server(phase, telemetry, start, end),
        },
        {"naive_residual": "no sample succeeded"},
    )


def _server(phase: Phase, telemetry: pa.Table, start: int, end: int) -> dict[str, Any]:
    """The server's own gauges in the window, against the samples in flight at the same instants.

    A gap is a queue that neither side shows, such as a proxy's. Comparing instant by instant leaves no noise
    of sampling in it, of which there is much: gauges are read once a second. Of several servers each counts
    its own share, so their means add up.
    """
    inside = between(telemetry, "t_ns", start, end)
    running = _mean_of_sources(inside, RUNNING)
    if running is None:
        return undefined("the server's own gauges were not sampled in the window")
    waiting = _mean_of_sources(inside, WAITING)
    looks = int64s(select(inside, kinds(inside, "name", RUNNING)), "t_ns")
    begun, ended = (np.searchsorted(np.sort(t), looks, side="right") for t in (phase.issued, phase.done))
    length = math.fsum(begun - ended) / len(looks)
    if not length:
        return undefined("nothing was in flight when the server's own gauges were read")
    return group(
        {
            "mean_running": running,
            "mean_waiting": waiting,
            "mean_in_flight": length,
            "gap": (length - running - (waiting or 0.0)) / length,
            "samples": len(looks),
        },
        {"mean_waiting": "the server has no gauge of waiting requests"},
    )


def _mean_of_sources(telemetry: pa.Table, name: str) -> float | None:
    """The sum over all sources of the mean of a gauge; None if no source has it."""
    wanted = select(telemetry, kinds(telemetry, "name", name))
    means = [
        math.fsum(values) / len(values)
        for source in tally(wanted, "source")
        if len(values := floats(select(wanted, kinds(wanted, "source", source)), "value"))
    ]
    return math.fsum(means) if means else None
