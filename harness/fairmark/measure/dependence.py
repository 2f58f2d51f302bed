"""How much independent information a sequence of queries holds.

Queries that queue behind each other are correlated, so n of them are worth fewer than n independent ones.
Sequences are 0/1, so all sums here are exact integers and an audit on another machine finds the same.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Flags

__all__ = ["effective_size", "variance_inflation"]

_DIRECT_PAIRS: Final = 32
"""Pairs of lags tried one by one before paying for all of them at once; independent data needs one or two."""


class _Autocovariance:
    """n^2 times the sum of (x[i] - mean) * (x[i + lag] - mean) of a 0/1 sequence: an integer for any lag."""

    def __init__(self, indicator: Flags) -> None:
        self.n = len(indicator)
        self._indicator = indicator
        self._before = np.concatenate([[0], np.cumsum(indicator)])
        self._ones = int(self._before[-1])
        self._joint: npt.NDArray[np.float64] | None = None

    def __call__(self, lag: int) -> int:
        n, ones = self.n, self._ones
        ends = int(self._before[n - lag]) + ones - int(self._before[lag])
        return n * n * self._together(lag) - n * ones * ends + (n - lag) * ones * ones

    def _together(self, lag: int) -> int:
        """How often x[i] and x[i + lag] are both 1."""
        if lag < 2 * _DIRECT_PAIRS:
            return int(np.count_nonzero(self._indicator[: self.n - lag] & self._indicator[lag:]))
        if self._joint is None:
            size = 1 << (2 * self.n - 1).bit_length()
            spectrum = np.fft.rfft(self._indicator.astype(np.float64), size)
            self._joint = np.rint(np.fft.irfft(spectrum * spectrum.conj(), size)[: self.n])
        return int(self._joint[lag])


def effective_size(indicator: Flags) -> float:
    """Effective sample size of a 0/1 sequence in issue order: n / tau, at most n.

    tau is the integrated autocorrelation time by the initial positive sequence (Geyer, Practical Markov
    Chain Monte Carlo, Statistical Science 7(4), 1992, section 3.3): twice the sum of the autocorrelations
    up to the first pair of lags (2m, 2m + 1) that is not positive, less 1. A constant sequence shows no
    dependence and gets n. Negative dependence is not credited.
    """
    n = len(indicator)
    autocovariance = _Autocovariance(indicator)
    variance = autocovariance(0)
    if variance == 0:
        return float(n)
    total = 0
    for lag in range(0, n - 1, 2):
        pair = autocovariance(lag) + autocovariance(lag + 1)
        if pair <= 0:
            break
        total += pair
    return n * variance / max(2 * total - variance, variance)


def variance_inflation(indicator: Flags, batches: int) -> float:
    """Variance of ``batches`` batch means against what independence would give; at least 1.

    Method of batch means (Law, Simulation Modeling and Analysis, chapter 9). A constant sequence shows no
    dependence and gets 1.

    Raises:
        ValueError: a batch would hold fewer than two entries.
    """
    size = len(indicator) // batches
    if size < 2:
        raise ValueError(f"{len(indicator)} entries do not fill {batches} batches")
    ones, n = int(indicator.sum()), len(indicator)
    if ones in (0, n):
        return 1.0
    counts: list[int] = indicator[: size * batches].reshape(batches, size).sum(axis=1).tolist()
    spread = batches * sum(count * count for count in counts) - sum(counts) ** 2
    return max(1.0, spread * n * n / (batches * (batches - 1) * size * ones * (n - ones)))
