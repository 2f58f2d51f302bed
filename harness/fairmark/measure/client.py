"""The client's own part in what was measured: did it keep up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import ABSENT, Int64s, between, floats, int64s, kinds, present, select, truths
from fairmark.measure.distribution import summary
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Terms
from fairmark.measure.turnaround import turnaround
from fairmark.measure.undefined import group, ratio, undefined

__all__ = ["client", "connect_wait", "send_lag"]

_SATURATED: Final = 0.9
"""Of a core, used or waited for: above it a request waits, on average, for several others in the client."""


def send_lag(phase: Phase, terms: Terms) -> Int64s:
    """How late each request was handed over by the client's own doing, in ns.

    Server: sent - scheduled. Elsewhere a query has no time of its own, so it is sent - issued. A query that
    found no idle connection waited for one after it was issued, and how long is the server's or the
    network's doing: its lag ends with the issue, and is `ABSENT` in closed loops.
    """
    opened = truths(phase.table, "connection_new")
    if terms.open_loop:
        return elapsed(phase.scheduled, np.where(opened, phase.issued, phase.sent))
    return np.where(opened, ABSENT, elapsed(phase.issued, phase.sent))


def connect_wait(phase: Phase) -> Int64s:
    """From the issue to the hand-over, in ns, where a connection was opened for the query; else `ABSENT`."""
    return np.where(truths(phase.table, "connection_new"), elapsed(phase.issued, phase.sent), ABSENT)


def client(
    phase: Phase,
    terms: Terms,
    health: pa.Table,
    workers: Sequence[Mapping[str, Any]],
    environment: Mapping[str, Any],
) -> dict[str, Any]:
    """Send lag and turnaround with the limits they are held against, stalls and CPU of the driver, its
    ceiling, and what the wall clock did meanwhile.
    """
    lag, waits = send_lag(phase, terms), connect_wait(phase)
    limit_ns = _turnaround_limit_ns(phase, terms)
    inside = _inside(health, phase)
    sampled = _sampled(health, phase)
    ceiling = _ceiling(workers)
    return group(
        {
            "lag_basis": "schedule" if terms.open_loop else "issue",
            "send_lag_ns": _summary(lag[present(lag)], "no sample was sent on a connection that was there"),
            "send_lag_limit_ns": terms.send_lag_limit_ns,
            "connect_wait_ns": _summary(waits[present(waits)], "no query had a connection opened for it"),
            "contract_violations": _violations(workers),
            "turnaround_ns": _turnaround(phase, terms),
            "turnaround_limit_ns": limit_ns,
            "loop_stall_max_ns": _whole(_largest(inside, "loop_stall_ns")),
            "stalled_share": _stalled_share(inside, phase, terms.workers, limit_ns),
            "gc_pause_max_ns": _whole(_largest(inside, "gc_pause_ns")),
            "cpu_max": _largest(sampled, "cpu_fraction"),
            "saturated_share": _saturated_share(sampled, phase),
            "steal_max": _largest(sampled, "steal_fraction"),
            "ceiling_qps": ceiling,
            "ceiling_share": None if ceiling is None else ratio(_rate(phase, terms), ceiling),
            "wall_clock": _wall_clock(environment),
            "workers": [_worker(phase, lag, worker) for worker in np.unique(phase.worker)],
        },
        {
            "loop_stall_max_ns": "no stall was recorded",
            "stalled_share": "the window has no length",
            "gc_pause_max_ns": "no pause was recorded",
            "cpu_max": "not sampled in the window",
            "saturated_share": "not sampled in the window, or the host does not count waits for a core",
            "steal_max": "not sampled in the window",
            "ceiling_qps": "this client was not calibrated",
            "ceiling_share": "this client was not calibrated",
        },
    )


def _summary(values: Int64s, missing: str) -> dict[str, Any]:
    return summary(values) if len(values) else undefined(missing)


def _turnaround(phase: Phase, terms: Terms) -> dict[str, Any]:
    if terms.slots is None:
        return undefined(f"not applicable: {terms.kind} does not wait for one query before the next")
    if not len(phase):
        return undefined("nothing was issued")
    return _summary(turnaround(phase, terms), "no query was issued after another had ended")


def _turnaround_limit_ns(phase: Phase, terms: Terms) -> int:
    """As the limit of the send lag; without bounds, 1 % of the median service time takes their place."""
    service = elapsed(phase.sent, np.where(phase.ok, phase.completed, ABSENT))
    service = service[present(service)]
    if terms.bounded or not len(service):
        return terms.send_lag_limit_ns
    return max(terms.send_lag_limit_ns, int(np.median(service)) // 100)


def _inside(health: pa.Table, phase: Phase) -> pa.Table:
    if not len(phase):
        return health.slice(0, 0)
    return between(health, "t_ns", phase.start_ns, int(phase.done.max()))


def _sampled(health: pa.Table, phase: Phase) -> pa.Table:
    """What each worker sampled in the phase, up to its first sample after the end, which is the phase's
    last: a sample stands for the time before it.
    """
    if not len(phase):
        return health.slice(0, 0)
    t_ns, worker = int64s(health, "t_ns"), int64s(health, "worker")
    regular = kinds(health, "name", "cpu_fraction", "busy_fraction", "steal_fraction")
    chosen = regular & (t_ns > phase.start_ns)
    end = int(phase.done.max())
    for one in np.unique(worker[chosen]):
        later = t_ns[chosen & (worker == one) & (t_ns >= end)]
        if len(later):
            chosen &= (worker != one) | (t_ns <= later.min())
    return select(health, chosen)


def _stalled_share(inside: pa.Table, phase: Phase, workers: int, limit_ns: int) -> float | None:
    """Share of the time in which what arrived was stamped later than the limit.

    During a stall of length s that is its first s - limit.
    """
    stalls = floats(select(inside, kinds(inside, "name", "loop_stall_ns")), "value")
    window_ns = int(phase.done.max()) - phase.start_ns if len(phase) else 0
    return ratio(float(np.maximum(stalls - limit_ns, 0.0).sum()), window_ns * workers)


def _saturated_share(sampled: pa.Table, phase: Phase) -> float | None:
    """Share of the time in which a worker's main thread wanted more than 90 % of a core; of the worker with
    the most.
    """
    cpu = select(sampled, kinds(sampled, "name", "busy_fraction"))
    t_ns, worker, used = int64s(cpu, "t_ns"), int64s(cpu, "worker"), cpu["value"].to_numpy()
    shares = []
    for one in np.unique(worker):
        order = np.argsort(t_ns[worker == one])
        spans = np.diff(t_ns[worker == one][order], prepend=phase.start_ns)
        shares.append(float(spans[used[worker == one][order] > _SATURATED].sum() / spans.sum()))
    return max(shares, default=None)


def _wall_clock(environment: Mapping[str, Any]) -> dict[str, Any]:
    """By how much the wall clock of the whole run was moved against the monotonic one."""
    anchors = [(environment.get(when) or {}).get("clock") for when in ("before", "after")]
    before, after = anchors
    if before is None or after is None:
        return undefined("the wall clock was not read at both ends of the run")
    elapsed_ns = 1000 * (int(after["monotonic_us"]) - int(before["monotonic_us"]))
    wall_ns = 1000 * (int(after["wall_us"]) - int(before["wall_us"]))
    return {"elapsed_ns": elapsed_ns, "step_ns": abs(wall_ns - elapsed_ns)}


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
