"""Samples in flight, and Little's law: an identity on the log, and a question to the server."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import Int64s, between, floats, kinds, select, total
from fairmark.measure.phase import Phase
from fairmark.measure.undefined import group, ratio, undefined

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
            "server": _server(telemetry, start, end, length),
        },
        {"naive_residual": "no sample succeeded"},
    )


def _server(telemetry: pa.Table, start: int, end: int, length: float) -> dict[str, Any]:
    """The server's own gauges in the window; a gap is a queue neither side counts, such as a proxy's."""
    inside = between(telemetry, "t_ns", start, end)
    running, waiting = (
        floats(select(inside, kinds(inside, "name", name)), "value") for name in (RUNNING, WAITING)
    )
    if not len(running):
        return undefined("the server's own gauges were not sampled in the window")
    mean_running = math.fsum(running) / len(running)
    mean_waiting = math.fsum(waiting) / len(waiting) if len(waiting) else None
    gap = ratio(length - mean_running - (mean_waiting or 0.0), length)
    return {"mean_running": mean_running, "mean_waiting": mean_waiting, "gap": gap, "samples": len(running)}
