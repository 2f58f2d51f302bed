"""Are the answers under load as good as those of the accuracy run? A test that may be read at any time.

For each row that both phases scored, the drop is its score in the accuracy phase less its mean score in the
performance phase. If the mean drop is at most the margin, betting a share of the capital on a larger one
makes no money on average, so the capital exceeds 1/alpha at any time with probability at most alpha (Ville
1939). The capital is spread evenly over fixed shares (Waudby-Smith and Ramdas, Estimating means of bounded
random variables by betting, JRSS B 86(1), 2024, sections 4 and 5). Rows, not answers, are what is bet on: two
answers to one question are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmark.measure.undefined import group, undefined

__all__ = ["ALARM_LOG10", "MARGIN", "held_answers", "log10_capital"]

MARGIN: Final = 0.01
"""A mean drop of this much is no finding: one point of a hundred."""

ALARM_LOG10: Final = 2.0
"""Capital of 10^2 is the alarm: false once in a hundred runs at most."""

_BETS: Final = 20


def log10_capital(drops: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The capital (log10) after each of ``drops``, which lie between -1 and 1, starting from 1."""
    most = 1 / (1 + MARGIN)  # at this share a drop of -1 loses everything
    shares = most * np.arange(1, _BETS + 1) / (_BETS + 1)
    logs = np.cumsum(np.log1p(np.outer(drops - MARGIN, shares)), axis=0)
    highest = logs.max(axis=1)
    together: npt.NDArray[np.float64] = highest + np.log(np.exp(logs - highest[:, None]).mean(axis=1))
    return together / math.log(10)


def held_answers(
    accuracy: Sequence[tuple[int, float]] | None, performance: Sequence[tuple[int, float]]
) -> dict[str, Any]:
    """The test on (row, score) pairs of both phases, those of performance in the order of issue."""
    if accuracy is None:
        return undefined("the run has no accuracy phase to compare with")
    expected = _means(accuracy)
    drops = [expected[row] - mean for row, mean in _means(performance).items() if row in expected]
    if not drops:
        return undefined("no row was scored in both phases")
    capital = log10_capital(np.array(drops))
    over = np.flatnonzero(capital >= ALARM_LOG10)
    return group(
        {
            "rows": len(drops),
            "mean_drop": math.fsum(drops) / len(drops),
            "margin": MARGIN,
            "log10_capital": float(capital[-1]),
            "peak_log10_capital": max(0.0, float(capital.max())),
            "alarm_log10_capital": ALARM_LOG10,
            "alarm_after_rows": int(over[0]) + 1 if len(over) else None,
        },
        {"alarm_after_rows": "the capital never reached the alarm"},
    )


def _means(scored: Sequence[tuple[int, float]]) -> Mapping[int, float]:
    """The mean score of each row, in the order in which rows first occur."""
    found: dict[int, list[float]] = {}
    for row, score in scored:
        found.setdefault(row, []).append(score)
    return {row: math.fsum(scores) / len(scores) for row, scores in found.items()}
