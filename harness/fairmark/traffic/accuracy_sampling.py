"""Which responses of a performance run LoadGen keeps for accuracy (loadgen.cc:69-98, 450-480)."""

from __future__ import annotations

import numpy as np

from fairmark.traffic.draws import draw_unit
from fairmark.traffic.mt19937 import Int64Array, Mt19937
from fairmark.traffic.settings import TrafficSettings

__all__ = ["kept_samples", "sampling_probability"]

_SAMPLE_SEED = 5489
"""mt19937's own default: LoadGen never seeds the generator of the per-sample values."""


def kept_samples(sample_count: int, probability: float, accuracy_log_seed: int) -> Int64Array:
    """Sequence ids, in issue order, whose response is logged.

    Every sample has a fixed value in [0, 1); ``accuracy_log_seed`` shifts all of them around the circle.
    """
    values = draw_unit(Mt19937(_SAMPLE_SEED), sample_count)
    shifted = values + draw_unit(Mt19937(accuracy_log_seed), 1)[0]
    wrapped = np.where(shifted < 1.0, shifted, shifted - 1.0)
    return np.flatnonzero(wrapped <= probability)


def sampling_probability(settings: TrafficSettings, target: int) -> float:
    """The probability that ``accuracy_log_sampling_target`` stands for.

    The target divided by the expected number of samples: rate times minimum duration, truncated, and at least
    the minimum number of samples.
    """
    expected = int(settings.target_qps * (settings.min_duration_ns // 1_000_000) / 1000)
    if settings.scenario != "Offline":
        expected *= settings.effective_samples_per_query
    return target / max(expected, settings.min_sample_count)
