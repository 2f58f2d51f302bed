"""From plans and scenario to what workers are told: phases of the live store, and orders."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Sequence
from typing import Final

import numpy as np

from fairmark.drive.job import Job, RunJob
from fairmark.drive.orders import Orders, PhaseOrders, Target, WarmupOrders
from fairmark.drive.policy import Limits
from fairmark.errors import InputError
from fairmark.evidence.columns import Phase
from fairmark.evidence.live import LivePhase
from fairmark.scenario.model import Scenario
from fairmark.sut.api import Endpoint, WireSUT
from fairmark.sut.asking import ask
from fairmark.traffic.plan import Plan

__all__ = ["check_descriptors", "driver_cores", "live_phase", "make_orders", "phase_orders", "slots"]

_FIRST_CONNECTIONS: Final = 4
"""Connections that an open loop starts with in each worker. It opens more as it needs them, in the warm-up
above all; idle ones beyond need are not free, since some servers give every connection a thread."""

_RESERVED_DESCRIPTORS: Final = 64


def live_phase(name: Phase, plan: Plan) -> LivePhase:
    """A plan as a phase of the live store.

    Server queries have a time of their own; sets of an accuracy plan follow one another. The one query of
    Offline is due at the start. All other queries are due when the one before them has ended.
    """
    kind = plan.settings.scenario
    due_ns = None
    if kind == "Server":
        due_ns = _one_after_another(plan)
    elif kind == "Offline":
        due_ns = np.zeros(plan.query_count, dtype=np.int64)
    return LivePhase(name, plan.sample_index, plan.query_offsets, due_ns, by_sample=kind == "Offline")


def _one_after_another(plan: Plan) -> np.typing.NDArray[np.int64]:
    due_ns = plan.scheduled_ns.copy()
    begin_ns = 0
    for part in plan.sets:
        due_ns[part.first_query : part.end_query] += begin_ns
        begin_ns += part.generated_duration_ns
    return due_ns


def make_orders(job: RunJob, endpoints: Sequence[Endpoint]) -> Orders:
    """The orders of a run.

    Raises:
        InputError: the scenario cannot be shared among so many workers.
    """
    at_once = slots(job, job.sut.max_in_flight)
    _check_workers(job.scenario, at_once)
    run = job.scenario.run
    return Orders(
        targets=[Target(e.host, e.port, e.tls) for e in endpoints],
        phases=[phase_orders(job, name, at_once) for name in job.phases],
        timeout_ns=round(run.query_timeout_s * 1e9),
        drain_ns=round(run.drain_timeout_s * 1e9),
        cores=driver_cores(job.sut),
        coordinator=os.getpid(),
        pacer=job.pacer,
    )


def driver_cores(sut: WireSUT) -> list[int]:
    """The cores that the SUT has left, when it says which it took; else none, and nothing is pinned."""
    taken = ask("cores", sut.cores)
    if taken is None or not hasattr(os, "sched_getaffinity"):
        return []
    return sorted(os.sched_getaffinity(0) - set(taken))


def _check_workers(scenario: Scenario, at_once: int | None) -> None:
    workers = scenario.settings.workers
    if at_once is not None and workers > at_once:
        raise InputError(
            f"is more than the {at_once} in flight at once, which workers share out",
            source=scenario.source,
            field="settings.workers",
            value=workers,
            accepted=f"1 to {at_once}",
        )


def slots(job: Job, max_in_flight: int) -> int | None:
    """How many units are in flight at once; None is an open loop.

    Args:
        max_in_flight: how many samples of the one Offline query the system takes at once.

    Raises:
        InputError: the scenario needs a number and has none.
    """
    match job.scenario.scenario:
        case "Server":
            return None
        case "Offline":
            return max_in_flight
        case "Concurrency":
            if job.scenario.settings.concurrency is None:
                raise InputError(
                    "is missing; the Concurrency scenario needs it",
                    source=job.scenario.source,
                    field="settings.concurrency",
                    accepted="an integer >= 1",
                )
            return job.scenario.settings.concurrency
        case _:
            return 1


def phase_orders(job: Job, name: Phase, at_once: int | None) -> PhaseOrders:
    """The orders of the phase ``name``, with ``at_once`` units in flight (see `slots`)."""
    scenario, plan = job.scenario, job.plans[name]
    each = plan.settings.effective_samples_per_query if scenario.scenario == "MultiStream" else 1
    units = len(plan.sample_index) // each
    first = _FIRST_CONNECTIONS * scenario.settings.workers if at_once is None else at_once
    return PhaseOrders(
        limits=_limits(job, name, plan),
        slots=at_once,
        connections=min(first, units) * each,
        think_ns=round(scenario.arrivals.think_time_s * 1e9),
        warmup=_warmup(job) if name == "warmup" else None,
    )


def _warmup(job: Job) -> WarmupOrders:
    warmup = job.scenario.warmup
    return WarmupOrders(
        units=warmup.queries,
        min_duration_ns=round(warmup.min_duration_s * 1e9),
        max_duration_ns=round(warmup.max_duration_s * 1e9),
        steady=warmup.steady,
    )


def _limits(job: Job, name: Phase, plan: Plan) -> Limits:
    """LoadGen knows no limits in accuracy mode; only closed loops end before their plan does."""
    if name != "performance":
        return Limits()
    scenario = job.scenario
    longest_s = scenario.run.max_duration_s
    return Limits(
        min_units=_min_units(plan),
        min_duration_ns=plan.settings.min_duration_ns,
        max_units=None if scenario.scenario == "Offline" else scenario.run.max_query_count,
        max_duration_ns=None if longest_s is None else round(longest_s * 1e9),
        max_outstanding=scenario.run.max_outstanding_queries,
    )


def _min_units(plan: Plan) -> int | None:
    """How many queries a closed loop issues at least; None where it is the whole plan and no more.

    Unique sampling promises every query of the set, also where the floors ask for fewer.
    """
    settings = plan.settings
    if settings.scenario in ("Server", "Offline"):
        return None
    least = settings.effective_min_query_count
    return max(least, plan.query_count) if settings.covers_set else least


def check_descriptors(job: RunJob, orders: Orders) -> None:
    """Refuse a run whose workers could not hold all its connections.

    A closed loop needs its slots. An open loop needs what Little's law asks of the slowest system that is
    still within the scenario's bounds, twice over; without bounds on the whole response, no more than it
    starts with can be known.

    Raises:
        InputError: the limit on open files is too low.
    """
    workers = job.scenario.settings.workers
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    needed = math.ceil(max(_in_flight(job), *(p.connections for p in orders.phases)) / workers)
    if limit != resource.RLIM_INFINITY and needed + _RESERVED_DESCRIPTORS > limit:
        raise InputError(
            f"{needed} connections per worker do not fit the limit on open files",
            source="ulimit -n",
            value=limit,
            accepted=f"at least {needed + _RESERVED_DESCRIPTORS}, or more workers",
        )


def _in_flight(job: RunJob) -> int:
    longest_s = _longest_valid_s(job)
    plan = job.plans.get("performance")
    if job.scenario.scenario != "Server" or plan is None or longest_s is None:
        return 0
    return min(plan.query_count, math.ceil(2 * plan.settings.target_qps * longest_s))


def _longest_valid_s(job: RunJob) -> float | None:
    bounds, tokens = job.scenario.constraints.bounds, job.scenario.generation.max_output_tokens
    if bounds.e2e_ms is not None:
        return bounds.e2e_ms / 1e3
    if bounds.ttft_ms is None or bounds.tpot_ms is None or tokens is None:
        return None
    return (bounds.ttft_ms + bounds.tpot_ms * tokens) / 1e3
