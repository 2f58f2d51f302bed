"""Repetitions in a report: the verdict on all of them, and how far their numbers lie apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairmark.judge.series import judge_series, series_of
from fairmark.report.numbers import decimal, duration_unit, in_unit

__all__ = ["SpreadRow", "series_in", "series_line", "spread_rows"]

_NAMES: Final = {
    "rates.qps": ("QPS", "1/s"),
    "rates.output_tokens_per_s": ("Output", "tok/s"),
    "latency.ttft_ns.from_schedule.p50_ns": ("TTFT p50", "ns"),
    "latency.ttft_ns.from_schedule.p99_ns": ("TTFT p99", "ns"),
    "latency.tpot_ns.between_events.p50_ns": ("TPOT p50", "ns"),
    "latency.tpot_ns.between_events.p99_ns": ("TPOT p99", "ns"),
    "latency.e2e_ns.from_schedule.p99_ns": ("E2E p99", "ns"),
    "accuracy.score": ("Accuracy score", ""),
}


@dataclass(frozen=True, slots=True)
class SpreadRow:
    """One number over the repetitions, as text; ``share`` is the standard deviation over the mean."""

    name: str
    unit: str
    least: str
    mean: str
    greatest: str
    share: str


def series_in(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The series document of every run of which ``records``, all judged, hold several repetitions."""
    judged = [record for record in records if "verdict" in record and "metrics" in record]
    return [judge_series(group) for group in series_of(judged) if len(group) > 1]


def series_line(series: Mapping[str, Any]) -> str:
    """The verdict on all repetitions; below it, for each that does not hold, its first reason."""
    held = ", ".join(f"{run['repetition']} {run['verdict']}" for run in series["runs"])
    head = f"{series['verdict']}  all {series['repetitions']} repetitions together ({held})"
    first: dict[str, str] = {}
    for reason in series["reasons"]:
        first.setdefault(reason.partition(":")[0], reason)
    return "\n".join([head, *(f"  - {reason}" for reason in first.values())])


def spread_rows(series: Mapping[str, Any]) -> list[SpreadRow]:
    """The spread of the performance phase's headline numbers, without those that a repetition lacks."""
    spread = series["spread"].get("performance", {})
    return [
        _row(*_NAMES[metric], found)
        for metric, found in spread.items()
        if metric in _NAMES and "undefined" not in found
    ]


def _row(name: str, unit: str, found: Mapping[str, Any]) -> SpreadRow:
    parts = [found[part] for part in ("min", "mean", "max")]
    if unit == "ns":
        unit, unit_ns = duration_unit(found["max"])
        least, mean, greatest = (in_unit(round(part), unit_ns) for part in parts)
    else:
        least, mean, greatest = map(decimal, parts)
    share = f"{100 * found['sd'] / found['mean']:.1f} %" if found["mean"] else ""
    return SpreadRow(name, unit, least, mean, greatest, share)
