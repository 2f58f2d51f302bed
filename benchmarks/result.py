"""One row of the benchmark table, and the only ways to make one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

__all__ = ["Goal", "Result", "against_limit", "against_peer", "not_run"]

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is to be reached: at least or at most ``value``, as a ratio to a peer or as a quantity."""

    bound: Literal["≥", "≤"]
    value: float

    def met_by(self, reached: float) -> bool:
        """Whether ``reached`` is on the right side of the bound, equality included."""
        return reached >= self.value if self.bound == "≥" else reached <= self.value


@dataclass(frozen=True)
class Result:
    """A row.

    Attributes:
        name: what was measured; unique in a run.
        ours, theirs: medians in ``unit``; None where that side was not run, or there is no other side.
        ratio: ours / theirs; where pairs were run side by side, the median of their ratios.
        target: the goal in words.
        met: None: not run, which is neither met nor missed.
        ours_range, theirs_range: least and greatest of the runs.
        runs: how many runs each median is of.
        note: why it was not run, or what a reader must know.
    """

    name: str
    ours: float | None
    theirs: float | None
    peer: str
    ratio: float | None
    target: str
    met: bool | None
    unit: str
    ours_range: Range | None = None
    theirs_range: Range | None = None
    runs: int = 0
    note: str | None = None


def against_peer(
    name: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    peer: str,
    goal: Goal,
    unit: str,
    note: str | None = None,
) -> Result:
    """A row whose goal is a ratio: run i of ours was interleaved with run i of theirs.

    Raises:
        ValueError: there are no runs, or the sides were not run equally often.
    """
    ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
    return Result(
        name=name,
        ours=median(ours),
        theirs=median(theirs),
        peer=peer,
        ratio=ratio,
        target=f"{goal.bound} {goal.value:g} × {peer}",
        met=goal.met_by(ratio),
        unit=unit,
        ours_range=(min(ours), max(ours)),
        theirs_range=(min(theirs), max(theirs)),
        runs=len(ours),
        note=note,
    )


def against_limit(
    name: str, ours: Sequence[float], *, goal: Goal, unit: str, note: str | None = None
) -> Result:
    """A row whose goal is a quantity in ``unit``.

    Raises:
        ValueError: there are no runs.
    """
    reached = median(ours)
    return Result(
        name=name,
        ours=reached,
        theirs=None,
        peer="",
        ratio=None,
        target=f"{goal.bound} {goal.value:g} {unit}",
        met=goal.met_by(reached),
        unit=unit,
        ours_range=(min(ours), max(ours)),
        runs=len(ours),
        note=note,
    )


def not_run(name: str, *, peer: str = "", goal: Goal, unit: str, note: str) -> Result:
    """A row without figures, and why."""
    aim = f"× {peer}" if peer else unit
    return Result(name, None, None, peer, None, f"{goal.bound} {goal.value:g} {aim}", None, unit, note=note)
