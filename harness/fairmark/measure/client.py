"""The client's own part in what was measured: did it keep up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import Int64s, between, floats, kinds, present, select
from fairmark.measure.distribution import summary
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio, undefined

__all__ = ["client", "send_lag"]


def send_lag(phase: Phase, terms: Terms) -> Int64s:
    """How late each request was handed over, in ns.

    Server: sent - scheduled. Elsewhere a query has no time of its own, so it is sent - issued.
    """
    return elapsed(phase.scheduled if terms.open_loop else phase.issued, phase.sent)


def client(
    phase: Phase, terms: Terms, health: pa.Table, workers: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Send lag with the limit it is held against, stalls of the driver, and its ceiling."""
    lag = send_lag(phase, terms)
    inside = _inside(health, phase)
    ceiling = _ceiling(workers)
    return group(
        {
            "lag_basis": "schedule" if terms.open_loop else "issue",
            "send_lag_ns": _summary(lag[present(lag)], "no sample was sent"),
            "send_lag_limit_ns": terms.send_lag_limit_ns,
            "contract_violations": _violations(workers),
            "turnaround_ns": _turnaround(phase, terms),
            "loop_stall_max_ns": _whole(_largest(inside, "loop_stall_ns")),
            "gc_pause_max_ns": _whole(_largest(inside, "gc_pause_ns")),
            "cpu_max": _largest(inside, "cpu_fraction"),
            "steal_max": _largest(inside, "steal_fraction"),
            "ceiling_qps": ceiling,
            "ceiling_share": None if ceiling is None else ratio(_rate(phase, terms), ceiling),
            "workers": [_worker(phase, lag, worker) for worker in np.unique(phase.worker)],
        },
        {
            "loop_stall_max_ns": "no stall was recorded",
            "gc_pause_max_ns": "no pause was recorded",
            "cpu_max": "not sampled in the window",
            "steal_max": "not sampled in the window",
            "ceiling_qps": "this client was not calibrated",
            "ceiling_share": "this client was not calibrated",
        },
    )


def _summary(values: Int64s, missing: str) -> dict[str, Any]:
    return summary(values) if len(values) else undefined(missing)


def _turnaround(phase: Phase, terms: Terms) -> dict[str, Any]:
    """Time from the end of a query to the issue of the next, where one query is in flight at a time."""
    if terms.kind not in ("SingleStream", "MultiStream"):
        return undefined(f"not applicable: {terms.kind} does not wait for one query before the next")
    if not len(phase):
        return undefined("nothing was issued")
    starts = np.flatnonzero(np.diff(phase.query, prepend=phase.query[0] - 1))
    ends = np.maximum.reduceat(phase.done, starts)
    return _summary(phase.issued[starts][1:] - ends[:-1], "needs two queries")


def _inside(health: pa.Table, phase: Phase) -> pa.Table:
    if not len(phase):
        return health.slice(0, 0)
    return between(health, "t_ns", phase.start_ns, int(phase.done.max()))


def _largest(health: pa.Table, name: str) -> float | None:
    values = floats(select(health, kinds(health, "name", name)), "value")
    return float(values.max()) if len(values) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _ceiling(workers: Sequence[Mapping[str, Any]]) -> float | None:
    """Rate that all workers together reached against a null SUT; None unless every one was calibrated."""
    ceilings = [worker.get("ceiling") for worker in workers]
    if not ceilings or not all(isinstance(c, Mapping) and c.get("qps") for c in ceilings):
        return None
    return float(sum(c["qps"] for c in ceilings if c is not None))


def _violations(workers: Sequence[Mapping[str, Any]]) -> int:
    """Breaches of the plugin contract; only systems in a worker's own process report to it."""
    return sum(int(worker["violations"]["count"]) for worker in workers if "violations" in worker)


def _rate(phase: Phase, terms: Terms) -> float:
    if terms.open_loop and terms.target_qps is not None:
        return terms.target_qps
    span = (int(phase.done.max()) - phase.start_ns) / 1e9 if len(phase) else 0.0
    return ratio(len(phase), span) or 0.0


def _worker(phase: Phase, lag: Int64s, worker: np.int64) -> dict[str, Any]:
    mine = phase.worker == worker
    sent = lag[mine & present(lag)]
    return group(
        {
            "worker": int(worker),
            "n": int(mine.sum()),
            "send_lag_p99_ns": summary(sent)["p99_ns"] if len(sent) else None,
        },
        {"send_lag_p99_ns": "this worker sent nothing"},
    )
