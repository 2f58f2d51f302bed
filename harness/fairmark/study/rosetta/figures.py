"""What a tool prints: figures, grouped by quantity, and the plain sentence that sets each apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from fairmark.study.rosetta.streams import Streams

__all__ = ["QUANTITIES", "UNITS", "Figure", "Floats", "Proof", "Quantity", "Tool", "absent", "figure", "rate"]

Floats = npt.NDArray[np.float64]

Quantity = Literal["ttft", "tpot", "itl", "e2e", "requests", "output tokens", "total tokens", "completed"]
QUANTITIES: Final[dict[Quantity, str]] = {
    "ttft": "Time to first token",
    "tpot": "Time per output token",
    "itl": "Gap between tokens or chunks",
    "e2e": "End-to-end latency",
    "requests": "Requests per second",
    "output tokens": "Output tokens per second",
    "total tokens": "Input and output tokens per second",
    "completed": "Requests counted as successes",
}
UNITS: Final[dict[Quantity, str]] = {
    "ttft": "ms",
    "tpot": "ms",
    "itl": "ms",
    "e2e": "ms",
    "requests": "1/s",
    "output tokens": "1/s",
    "total tokens": "1/s",
    "completed": "",
}

Proof = Literal["run", "formula"]
"""How it is known that the tool prints this: it was run beside fairmark, or its formula was read."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One printed number, in the unit of its quantity; ``value`` is null only with a reason."""

    quantity: Quantity
    statistic: str
    name: str
    value: float | None
    undefined: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, its figures as a function of what its client would have seen, and how they differ from ours.

    ``differs`` has a sentence for each quantity that the tool defines otherwise than we do; ``percentiles``
    says which value of a sorted list a percentile is.
    """

    id: str
    title: str
    version: str
    proof: Proof
    figures: Callable[[Streams], list[Figure]]
    percentiles: str
    differs: Mapping[Quantity, str]


def figure(quantity: Quantity, statistic: str, name: str, value: float) -> Figure:
    """A figure with a value; one that is not finite does not exist."""
    if not math.isfinite(value):
        return absent(quantity, statistic, name, "division by zero in the tool's formula")
    return Figure(quantity, statistic, name, float(value))


def rate(quantity: Quantity, name: str, amount: float, window_s: float) -> Figure:
    """``amount`` over a window, which has no rate where it has no length."""
    if window_s <= 0:
        return absent(quantity, "rate", name, "the tool would divide by a window of no length")
    return figure(quantity, "rate", name, amount / window_s)


def absent(quantity: Quantity, statistic: str, name: str, reason: str) -> Figure:
    """A figure that this evidence cannot give."""
    return Figure(quantity, statistic, name, None, reason)
