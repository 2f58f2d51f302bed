"""What a worker is told: a small JSON file beside the plan. Everything else it reads from the live store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from fairmark.drive.pacing import PacerName
from fairmark.drive.policy import BLOCK, ClosedLoop, Limits, OpenLoop, Policy, Warmup, WarmupRule, share

__all__ = ["ORDERS", "Orders", "PhaseOrders", "Target", "WarmupOrders", "make_policy", "read_orders"]

ORDERS: Final = "drive.json"


@dataclass(frozen=True, slots=True)
class Target:
    """A server address. Paths and headers come on standard input: they may hold secrets.

    ``persistent`` False: the server closes a connection after each response, whatever it announces.
    """

    host: str
    port: int
    tls: bool
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class WarmupOrders:
    """The arguments of `WarmupRule`, for all workers together."""

    units: int
    min_duration_ns: int
    max_duration_ns: int
    steady: bool


@dataclass(frozen=True, slots=True)
class PhaseOrders:
    """How a phase is issued, for all workers together.

    Attributes:
        slots: units in flight at once; None is an open loop.
        connections: how many connections are opened before the phase.
    """

    limits: Limits
    slots: int | None
    connections: int
    think_ns: int = 0
    warmup: WarmupOrders | None = None


@dataclass(frozen=True, slots=True)
class Orders:
    """A worker's orders.

    Attributes:
        cores: the cores that workers are pinned to; empty leaves them where they are.
        timeout_ns, drain_ns: for one query, and for the end of a phase.
        coordinator: process id; a worker whose parent is another one closes.
    """

    targets: Sequence[Target]
    phases: Sequence[PhaseOrders]
    timeout_ns: int
    drain_ns: int
    cores: Sequence[int]
    coordinator: int
    pacer: PacerName | None = None

    def write(self, folder: Path) -> None:
        """Write them into the live store."""
        (folder / ORDERS).write_text(json.dumps(asdict(self)), encoding="utf-8")


def read_orders(folder: Path) -> Orders:
    """Read what `Orders.write` wrote."""
    content = json.loads((folder / ORDERS).read_text(encoding="utf-8"))
    targets = [Target(**t) for t in content.pop("targets")]
    phases = [
        PhaseOrders(
            limits=Limits(**p.pop("limits")),
            warmup=None if (warmup := p.pop("warmup")) is None else WarmupOrders(**warmup),
            **p,
        )
        for p in content.pop("phases")
    ]
    return Orders(targets=targets, phases=phases, **content)


def make_policy(orders: PhaseOrders, units: int, due_ns: Sequence[int], worker: int, workers: int) -> Policy:
    """The policy of one worker's share.

    Args:
        units: how many units this worker has.
        due_ns: when each of them is due, for open loops.
    """
    limits = _share_of(orders.limits, worker, workers)
    policy: Policy
    if orders.slots is None:
        policy = OpenLoop(due_ns, limits)
    else:
        policy = ClosedLoop(units, share(orders.slots, worker, workers), limits, think_ns=orders.think_ns)
    if orders.warmup is None:
        return policy
    w = orders.warmup
    rule = WarmupRule(
        share(w.units, worker, workers),
        w.min_duration_ns,
        w.max_duration_ns,
        steady=w.steady,
        block=max(1, share(BLOCK, worker, workers)),
    )
    return Warmup(policy, rule)


def _share_of(limits: Limits, worker: int, workers: int) -> Limits:
    def part(count: int | None) -> int | None:
        return None if count is None else share(count, worker, workers)

    return replace(limits, min_units=part(limits.min_units), max_units=part(limits.max_units))
