"""Rates and latencies by length in a report: a table for each run whose lengths vary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairmark.report.numbers import DASH, count, decimal, in_unit

__all__ = ["COLUMNS", "LengthTable", "length_tables"]

_MS: Final = 1_000_000
COLUMNS: Final = (
    "tokens",
    "n",
    "QPS",
    "output tok/s",
    "TTFT p50 ms",
    "TTFT p99 ms",
    "TPOT p50 ms",
    "TPOT p99 ms",
    "E2E p50 ms",
    "E2E p99 ms",
)


@dataclass(frozen=True, slots=True)
class LengthTable:
    """Rows of cells under `COLUMNS`; ``side`` is input or output."""

    side: str
    rows: tuple[tuple[str, ...], ...]
    remark: str | None


def length_tables(record: Mapping[str, Any]) -> list[LengthTable]:
    """The tables of the performance phase; none for lengths that all lie in one bucket or are not known."""
    by_length = record.get("metrics", {}).get("performance", {}).get("by_length", {})
    tables = []
    for side in ("input", "output"):
        buckets = by_length.get(side)
        if isinstance(buckets, list) and len(buckets) > 1:
            remark = _against(side, by_length["like"])
            tables.append(LengthTable(side, tuple(_row(bucket) for bucket in buckets), remark))
    return tables


def _row(bucket: Mapping[str, Any]) -> tuple[str, ...]:
    def duration(name: str) -> str:
        return DASH if bucket[name] is None else in_unit(bucket[name], _MS)

    def rate(name: str) -> str:
        return DASH if bucket[name] is None else decimal(bucket[name])

    return (
        f"{count(bucket['from_tokens'])} to {count(bucket['below_tokens'] - 1)}",
        count(bucket["n"]),
        rate("qps"),
        rate("output_tokens_per_s"),
        *(duration(f"{name}_{point}_ns") for name in ("ttft", "tpot", "e2e") for point in ("p50", "p99")),
    )


def _against(side: str, like: Mapping[str, Any]) -> str | None:
    """How far the lengths lie from the recording that the scenario names."""
    if like.get(f"{side}_ks") is None:
        return None
    return (
        f"{side} lengths differ from those of {like['recording']} by a Kolmogorov-Smirnov distance of "
        f"{like[f'{side}_ks']:.3f} (chance alone: {like['ks_5_percent']:.3f} at most, 19 times in 20)"
    )
