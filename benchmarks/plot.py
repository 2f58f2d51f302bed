"""The rows as a picture: how far each is from its goal, on the right side of it or the wrong one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.result import Result

__all__ = ["plot"]

# Text as text, and the same bytes for the same rows.
mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "fairmark"})

_GOOD, _BAD, _RANGE = "#2a7f62", "#b3362b", "#666666"


def plot(rows: Sequence[Result], path: Path) -> None:
    """Draw one bar per row with figures: reached / goal, turned so that more is better, on a log scale."""
    shown = [(row, margin) for row in rows if (margin := _margin(row)) is not None]
    figure = Figure(figsize=(9, 1.2 + 0.3 * len(shown)), layout="constrained")
    axes = figure.subplots()
    positions = range(len(shown), 0, -1)
    for position, (row, margin) in zip(positions, shown, strict=True):
        color = _GOOD if row.met else _BAD
        axes.barh(position, margin - 1, left=1, height=0.6, color=color)
        axes.annotate(
            f"{margin:.2g}×", (margin, position), (4, 0), textcoords="offset points", va="center", size=8
        )
    axes.set_xscale("log")
    axes.axvline(1, color=_RANGE, linewidth=1)
    axes.set_yticks(list(positions), [row.name for row, _ in shown], size=8)
    axes.set_xlabel("times better than the goal (left of 1: worse)")
    axes.margins(x=0.12)
    figure.savefig(path, format=path.suffix[1:], metadata={"Date": None})


def _margin(row: Result) -> float | None:
    """How many times better than its goal a row is; None where that is not defined."""
    reached = row.ours if row.ratio is None else row.ratio
    goal = re.match(r"([≥≤]) ([-+.e\d]+)", row.target)
    if reached is None or row.met is None or goal is None:
        return None
    value = float(goal[2])
    if reached <= 0 or value <= 0:
        return None
    return reached / value if goal[1] == "≥" else value / reached
