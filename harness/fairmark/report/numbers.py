"""How numbers are spelled: enough digits to compare, a unit beside them, a dash where there is none."""

from __future__ import annotations

from typing import Final

__all__ = ["DASH", "bytes_of", "count", "decimal", "duration_unit", "in_unit", "share"]

DASH: Final = "–"
"""Stands for a number that does not exist; the reason is always given beside it."""

_UNITS: Final = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000))


def decimal(value: float) -> str:
    """``value`` with about four significant digits and never in scientific notation above 1e-3."""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 10:
        return f"{value:.2f}"
    if size >= 0.001 or value == 0:
        return f"{value:.3f}"
    return f"{value:.2e}"


def count(value: int) -> str:
    """A whole number with thousands separated."""
    return f"{value:,}"


def share(value: float) -> str:
    """A fraction as percent."""
    return f"{value * 100:.3g} %"


def duration_unit(longest_ns: int) -> tuple[str, int]:
    """The unit in which durations up to ``longest_ns`` read well, and its length in ns."""
    if longest_ns >= 10 * _UNITS[0][1]:
        return _UNITS[0]
    return _UNITS[1] if longest_ns >= _UNITS[1][1] else _UNITS[2]


def in_unit(value_ns: int, unit_ns: int) -> str:
    """A duration in a unit, without the unit's name."""
    return decimal(value_ns / unit_ns)


def bytes_of(size: int) -> str:
    """A size in binary units."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
