"""How a number that does not exist is written: null with a reason, never 0, NaN or Infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["group", "ratio", "undefined"]


def undefined(reason: str) -> dict[str, Any]:
    """The object that stands for a whole group of numbers that do not exist."""
    return {"undefined": reason}


def group(values: Mapping[str, Any], why: Mapping[str, str]) -> dict[str, Any]:
    """``values`` with a ``reasons`` object that explains each null among them.

    Raises:
        KeyError: a value is null and ``why`` does not say why: a bug in the caller.
        ValueError: a value is not finite: a bug in the caller.
    """
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return {**values, "reasons": {name: why[name] for name, value in values.items() if value is None}}


def ratio(numerator: float, denominator: float) -> float | None:
    """``numerator / denominator``, or None where the denominator is 0."""
    return float(numerator) / float(denominator) if denominator else None
