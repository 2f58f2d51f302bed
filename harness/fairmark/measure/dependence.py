"""How much independent information a sequence of queries holds.

Queries that queue behind each other are correlated, so n of them are worth fewer than n independent ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Flags

__all__ = ["effective_size", "variance_inflation"]

_DIRECT_PAIRS: Final = 32
"""Pairs of lags tried one by one before paying for all of them at once; independent data needs one or two."""


def _autocovariances(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Sums x[i] * x[i + lag] for every lag, by FFT in O(n log n)."""
    size = 1 << (2 * len(x) - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    return np.fft.irfft(spectrum * spectrum.conj(), size)[: len(x)]


def _positive_sum(x: npt.NDArray[np.float64]) -> float:
    """Sum of the autocovariances up to the first pair of lags (2m, 2m + 1) that is not positive."""
    total = 0.0
    for lag in range(0, min(2 * _DIRECT_PAIRS, len(x) - 1), 2):
        pair = float(x[: len(x) - lag] @ x[lag:] + x[: len(x) - lag - 1] @ x[lag + 1 :])
        if pair <= 0:
            return total
        total += pair
    lags = _autocovariances(x)
    pairs = lags[: len(lags) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 0)
    return float(pairs[: ends[0] if len(ends) else None].sum())


def effective_size(indicator: Flags) -> float:
    """Effective sample size of a 0/1 sequence in issue order: n / tau, at most n.

    tau is the integrated autocorrelation time by the initial positive sequence (Geyer, Practical Markov
    Chain Monte Carlo, Statistical Science 7(4), 1992, section 3.3). A constant sequence shows no dependence
    and gets n. Negative dependence is not credited.
    """
    n = len(indicator)
    x = indicator.astype(np.float64) - indicator.mean()
    variance = float(x @ x)
    if variance == 0:
        return float(n)
    tau = 2.0 * _positive_sum(x) / variance - 1.0
    return n / max(tau, 1.0)


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
    variance = float(indicator.var())
    if variance == 0:
        return 1.0
    means = indicator[: size * batches].reshape(batches, size).mean(axis=1)
    return max(1.0, size * float(means.var(ddof=1)) / variance)
