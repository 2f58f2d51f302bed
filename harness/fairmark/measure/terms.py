"""What a scenario demands, read from the resolved document inside a run record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairmark.scenario.model import SamplingKind, ScenarioKind

__all__ = ["Limits", "Terms", "read_terms"]

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_FLOOR_OF_LAG_LIMIT_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """One set of latency bounds: the scenario's own, or those of a further service class.

    ``percentile`` is a fraction, made as LoadGen makes it (percent * 0.01), so that it is the same double.
    ``bounds_ns`` holds only the bounds that are set, by ``ttft``, ``tpot`` and ``e2e``.
    """

    percentile: float
    bounds_ns: Mapping[str, int]
    max_failure_rate: float


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a scenario that numbers depend on, in the units of the evidence.

    ``slots`` is how many queries a closed loop keeps in flight; None where queries do not wait for others.
    """

    kind: ScenarioKind
    generates_tokens: bool
    limits: Limits
    classes: Mapping[str, Limits]
    min_duration_ns: int
    min_query_count: int
    samples_per_query: int
    sampling: SamplingKind
    performance_sample_count: int | None
    process: str
    cv: float | None
    target_qps: float | None
    workers: int
    slots: int | None
    think_ns: int
    longest_stop_bytes: int
    ignore_eos: bool

    @property
    def open_loop(self) -> bool:
        """Whether queries have a time of their own; only Server has an arrival process."""
        return self.kind == "Server"

    @property
    def bounded(self) -> bool:
        """Whether any latency is bounded."""
        return any(limits.bounds_ns for limits in (self.limits, *self.classes.values()))

    @property
    def send_lag_limit_ns(self) -> int:
        """The most that the client may add at p99: 1 ms, or 1 % of the tightest bound if that is more."""
        bounds = [ns for limits in (self.limits, *self.classes.values()) for ns in limits.bounds_ns.values()]
        return max(_FLOOR_OF_LAG_LIMIT_NS, min(bounds) // 100 if bounds else 0)


def _limits(table: Mapping[str, Any], default_percent: float) -> Limits:
    percent = table.get("percentile")
    bounds = {
        name: round(table[f"{name}_ms"] * _NS_PER_MS)
        for name in ("ttft", "tpot", "e2e")
        if table.get(f"{name}_ms") is not None
    }
    return Limits(
        percentile=(default_percent if percent is None else percent) * 0.01,
        bounds_ns=bounds,
        max_failure_rate=float(table.get("max_failure_rate", 0.0)),
    )


def read_terms(document: Mapping[str, Any], *, rows: int | None = None) -> Terms:
    """Read the resolved scenario document (``scenario`` of the run record).

    Args:
        rows: of the sample library, which are the performance set where the scenario does not limit it.

    LoadGen's default percentiles: 90 in SingleStream, 99 elsewhere (test_settings.h:109-280).
    """
    kind: ScenarioKind = document["scenario"]
    default_percent = 90.0 if kind == "SingleStream" else 99.0
    run, settings, arrivals = document["run"], document["settings"], document["arrivals"]
    duration_s = max(run["min_duration_s"], settings.get("min_duration_s") or 0.0)
    return Terms(
        kind=kind,
        generates_tokens=document["samples"]["input"] != "data",
        limits=_limits(document["constraints"], default_percent),
        classes={name: _limits(table, default_percent) for name, table in document["classes"].items()},
        min_duration_ns=round(duration_s * _NS_PER_S),
        min_query_count=max(run["min_query_count"], settings.get("min_query_count") or 0),
        samples_per_query=run["samples_per_query"],
        sampling=run["sampling"],
        performance_sample_count=document["samples"].get("performance_sample_count") or rows or None,
        process=arrivals["process"],
        cv=arrivals.get("cv"),
        target_qps=settings.get("target_qps"),
        workers=settings["workers"],
        slots={"SingleStream": 1, "MultiStream": 1, "Concurrency": settings.get("concurrency")}.get(kind),
        think_ns=round(arrivals["think_time_s"] * _NS_PER_S),
        longest_stop_bytes=max((len(s.encode()) for s in document["generation"].get("stop", ())), default=0),
        ignore_eos=bool(document["generation"].get("ignore_eos")),
    )
