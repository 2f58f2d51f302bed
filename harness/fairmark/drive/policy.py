"""Issuing policies: what to send next, and when a phase ends. Pure: every time comes in as an argument.

A policy deals in *units* of its worker's share of the plan, numbered from 0: queries, or the single samples
of an Offline query. Times are ns from the phase's epoch. A driver, real or virtual, asks `due_ns`, calls
`issue` at or after that time, reports with `completed`, and stops asking once `ended` is set. What is in
flight then is drained.

The stop rules are LoadGen's (issue_query_controller.cc, IssueQueriesInternal), tested after every issue, in
this order: too many outstanding, the natural end of closed loops, the query limit, the duration limit, the
end of the plan.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Protocol

__all__ = ["BLOCK", "ClosedLoop", "Limits", "OpenLoop", "Policy", "Warmup", "WarmupRule", "share"]

BLOCK: Final = 16
"""Completions whose median is one reading of the service time."""

_STEADY: Final = 0.1


def share(total: int, worker: int, workers: int) -> int:
    """How many of ``total`` units belong to ``worker`` when unit i goes to worker i mod ``workers``."""
    return (total - worker + workers - 1) // workers


@dataclass(frozen=True, slots=True)
class Limits:
    """When a performance phase ends; the defaults end it with the plan.

    Attributes:
        min_units, min_duration_ns: closed loops end naturally once both are reached. A plan that ends
            before is exhausted. ``min_units`` None: the plan itself is the target, and ends naturally.
        max_units, max_duration_ns: LoadGen's early ends; None is no limit.
        max_outstanding: more units than so many in flight end an open loop early; closed ones have slots.
    """

    min_units: int | None = None
    min_duration_ns: int = 0
    max_units: int | None = None
    max_duration_ns: int | None = None
    max_outstanding: int | None = None

    def end(self, issued: int, planned: int, now_ns: int) -> str | None:
        """The reason to issue nothing more after unit number ``issued`` went out at ``now_ns``, or None."""
        natural = self.min_units is not None and issued >= self.min_units and now_ns >= self.min_duration_ns
        if natural:
            return "complete"
        if self.max_units is not None and issued >= self.max_units:
            return "max_queries"
        if self.max_duration_ns is not None and now_ns > self.max_duration_ns:
            return "max_duration"
        if issued >= planned:
            return "complete" if self.min_units is None else "plan_exhausted"
        return None


class Policy(Protocol):
    """What every issuing policy answers."""

    @property
    def ended(self) -> str | None:
        """Why nothing more is issued; None while the phase goes on."""

    def due_ns(self) -> int | None:
        """When the next unit is due; None if that depends on a completion."""

    def issue(self, now_ns: int) -> int:
        """Take the next unit, which is due, and return its number."""

    def completed(self, now_ns: int, service_ns: int) -> None:
        """A unit ended, ``service_ns`` after it was sent."""


class OpenLoop:
    """Server: every unit at its planned time, whatever the system does."""

    def __init__(self, due_ns: Sequence[int], limits: Limits) -> None:
        self._due_ns = due_ns
        self._limits = limits
        self._issued = self._completed = 0
        self.ended: str | None = None if len(due_ns) else "complete"

    def due_ns(self) -> int | None:
        """The planned time of the next unit."""
        return None if self.ended else self._due_ns[self._issued]

    def issue(self, now_ns: int) -> int:
        """Take the next unit."""
        unit = self._issued
        self._issued += 1
        most = self._limits.max_outstanding
        if most is not None and self._issued - self._completed > most:
            self.ended = "max_outstanding"
        else:
            self.ended = self._limits.end(self._issued, len(self._due_ns), now_ns)
        return unit

    def completed(self, now_ns: int, service_ns: int) -> None:
        """Completions do not change when an open loop issues, only how many are outstanding."""
        self._completed += 1


class ClosedLoop:
    """SingleStream and MultiStream (one slot), Concurrency and Offline (several): a slot issues, waits for
    its unit to end, rests for ``think_ns`` and issues again.
    """

    def __init__(self, units: int, slots: int, limits: Limits, *, think_ns: int = 0) -> None:
        self._units = units
        self._limits = limits
        self._think_ns = think_ns
        self._ready_ns = deque([0] * min(slots, units))
        self._issued = 0
        self.ended: str | None = None if units else "complete"

    def due_ns(self) -> int | None:
        """When the first resting slot is ready again; None if all slots are waiting."""
        return None if self.ended or not self._ready_ns else self._ready_ns[0]

    def issue(self, now_ns: int) -> int:
        """Take the next unit with the slot that has been ready the longest."""
        self._ready_ns.popleft()
        unit = self._issued
        self._issued += 1
        self.ended = self._limits.end(self._issued, self._units, now_ns)
        return unit

    def completed(self, now_ns: int, service_ns: int) -> None:
        """Give the slot back."""
        self._ready_ns.append(now_ns + self._think_ns)


class WarmupRule:
    """When a warm-up has done its work (`fairmark.scenario.model.Warmup`).

    Steady means: the medians of the service times of the last two blocks of 16 completions differ by less
    than 10 % of the earlier one. Workers that share a warm-up each test their share of the blocks.
    """

    def __init__(
        self, units: int, min_duration_ns: int, max_duration_ns: int, *, steady: bool, block: int = BLOCK
    ) -> None:
        self._units = units
        self._min_duration_ns = min_duration_ns
        self._max_duration_ns = max_duration_ns
        self._steady = steady
        self._completed = 0
        self._block = block
        self._recent: deque[int] = deque(maxlen=2 * block)

    def end(self, now_ns: int, service_ns: int) -> str | None:
        """Count a completion; the reason to end the warm-up now, or None."""
        self._completed += 1
        self._recent.append(service_ns)
        if self._completed >= self._units and now_ns >= self._min_duration_ns:
            if not self._steady:
                return "complete"
            if self._is_steady():
                return "steady"
        return self.expired(now_ns)

    def expired(self, now_ns: int) -> str | None:
        """The reason to end when the longest duration has passed, or None."""
        return "max_duration" if now_ns >= self._max_duration_ns else None

    def _is_steady(self) -> bool:
        if len(self._recent) < 2 * self._block:
            return False
        times = list(self._recent)
        earlier, later = median(times[: self._block]), median(times[self._block :])
        return abs(later - earlier) < _STEADY * earlier


class Warmup:
    """A scenario's own policy, ended by a `WarmupRule`; a plan that ends first is ``max_queries``."""

    def __init__(self, policy: Policy, rule: WarmupRule) -> None:
        self._policy = policy
        self._rule = rule
        self._reason: str | None = None

    @property
    def ended(self) -> str | None:
        """The rule's reason, or the end of the plan."""
        return self._reason or ("max_queries" if self._policy.ended else None)

    def due_ns(self) -> int | None:
        """As the scenario's policy has it."""
        return None if self._reason else self._policy.due_ns()

    def issue(self, now_ns: int) -> int:
        """As the scenario's policy has it, unless the warm-up is over time."""
        self._reason = self._rule.expired(now_ns)
        return self._policy.issue(now_ns)

    def completed(self, now_ns: int, service_ns: int) -> None:
        """Pass it on, and see whether the warm-up is done."""
        self._policy.completed(now_ns, service_ns)
        self._reason = self._reason or self._rule.end(now_ns, service_ns)
