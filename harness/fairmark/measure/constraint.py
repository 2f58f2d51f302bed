"""Latency bounds. A failed query is over every bound, so that refusing load fast cannot pass one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmark.measure.arrow import ABSENT, Flags, Int64s, present
from fairmark.measure.latency import query_latency
from fairmark.measure.phase import Phase, elapsed
from fairmark.measure.terms import Limits, Terms
from fairmark.measure.undefined import group, ratio

__all__ = ["Judged", "at_percentile", "classes", "constraint", "judged"]


@dataclass(frozen=True, slots=True)
class Judged:
    """One bounded latency: ns per sample in plan order, `ABSENT` where it has no value.

    (Per query for E2E in MultiStream.) ``exempt`` marks successes for which the metric has no meaning.
    """

    values: Int64s
    failed: Flags
    exempt: Flags

    @property
    def counted(self) -> Flags:
        """Failures, and successes with a value."""
        return self.failed | present(self.values)

    def over(self, bound_ns: int) -> Flags:
        """Which of the counted are over the bound; equality passes, as in LoadGen."""
        return (self.failed | (self.values > bound_ns))[self.counted]


def judged(phase: Phase, terms: Terms, name: str) -> Judged:
    """The latency that the bound ``name`` (ttft, tpot or e2e) holds for, from the scheduled time."""
    exempt = np.zeros(len(phase), dtype=np.bool_)
    if name == "tpot":
        short = present(phase.output_tokens) & (phase.output_tokens < 2)
        return Judged(phase.tpot(), ~phase.ok, phase.ok & short)
    if name == "e2e" and terms.kind == "MultiStream":
        values, _, ok = query_latency(phase)
        return Judged(values, ~ok, np.zeros(len(ok), dtype=np.bool_))
    end = phase.first_token if name == "ttft" else phase.completed
    return Judged(np.where(phase.ok, elapsed(phase.scheduled, end), ABSENT), ~phase.ok, exempt)


def at_percentile(values: Int64s, failed: int, fraction: float) -> int | None:
    """LoadGen's percentile of ``values`` (ns) together with ``failed`` infinite ones; None if infinite."""
    rank = int((len(values) + failed) * fraction)
    return int(np.partition(values, rank)[rank]) if rank < len(values) else None


def _bound(latency: Judged, bound_ns: int, fraction: float) -> dict[str, Any]:
    n, failed = int(latency.counted.sum()), int(latency.failed.sum())
    measured = latency.values[~latency.failed & present(latency.values)]
    return group(
        {
            "bound_ns": bound_ns,
            "n": n,
            "over": int(latency.over(bound_ns).sum()),
            "over_allowed": n - 1 - int(n * fraction) if n else None,
            "failed": failed,
            "not_applicable": int(latency.exempt.sum()),
            "unmeasured": int((~latency.counted & ~latency.exempt).sum()),
            "at_percentile_ns": at_percentile(measured, failed, fraction),
        },
        {
            "over_allowed": "no query has this latency",
            "at_percentile_ns": "infinite: too many queries failed" if n else "no query has this latency",
        },
    )


def _bounds(phase: Phase, terms: Terms, limits: Limits) -> dict[str, Any]:
    return {
        name: _bound(judged(phase, terms, name), bound_ns, limits.percentile)
        for name, bound_ns in limits.bounds_ns.items()
    }


def constraint(phase: Phase, terms: Terms) -> dict[str, Any]:
    """The scenario's own bounds.

    LoadGen's test ``sorted[int(n * p)] <= bound`` is written as a count: at most ``n - 1 - int(n * p)`` may
    be over, which is the same test and also has a meaning when a failure makes the percentile infinite.
    """
    return {
        "percentile": terms.limits.percentile,
        "max_failure_rate": terms.limits.max_failure_rate,
        "bounds": _bounds(phase, terms, terms.limits),
    }


def classes(phase: Phase, terms: Terms) -> dict[str, Any]:
    """Every further service class on the same samples; failures stay in goodput's denominator."""
    return {name: _class(phase, terms, limits) for name, limits in terms.classes.items()}


def _class(phase: Phase, terms: Terms, limits: Limits) -> dict[str, Any]:
    good = phase.ok.copy()
    for name, bound_ns in limits.bounds_ns.items():
        # Goodput counts samples, so MultiStream's E2E is taken per sample here.
        by_sample = judged(phase, terms, name) if name != "e2e" else _e2e(phase)
        good &= by_sample.exempt | (present(by_sample.values) & (by_sample.values <= bound_ns))
    bounds = _bounds(phase, terms, limits)
    seconds = (int(phase.done.max()) - phase.start_ns) / 1e9 if len(phase) else 0.0
    return group(
        {
            "percentile": limits.percentile,
            "max_failure_rate": limits.max_failure_rate,
            "bounds": bounds,
            "good": int(good.sum()),
            "good_share": ratio(int(good.sum()), len(phase)),
            "goodput_qps": ratio(int(good.sum()), seconds),
            "excess": _excess(bounds, phase, limits),
        },
        {"good_share": "nothing was issued", "goodput_qps": "the window has no length"},
    )


def _e2e(phase: Phase) -> Judged:
    values = np.where(phase.ok, elapsed(phase.scheduled, phase.completed), ABSENT)
    return Judged(values, ~phase.ok, np.zeros(len(phase), dtype=np.bool_))


def _excess(bounds: Mapping[str, Mapping[str, Any]], phase: Phase, limits: Limits) -> int:
    """By how many samples a class misses; at most 0 when it holds. What was not measured is not held."""
    failures = int((~phase.ok).sum()) - int(limits.max_failure_rate * len(phase))
    # Where no query has the latency even none over is one too many.
    misses = [
        int(b["over"] + b["unmeasured"] - (b["over_allowed"] if b["n"] else -1)) for b in bounds.values()
    ]
    return max([failures, *misses])
