"""``std::shuffle`` of libstdc++ 11 and later, draw for draw (``bits/stl_algo.h``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmark.traffic.draws import draw_bounded
from fairmark.traffic.mt19937 import Int64Array, Mt19937

__all__ = ["shuffle_epochs", "shuffled", "skip_epochs"]

_PAIRED_BELOW = 65536
"""Shorter vectors take two swap positions from one draw: (2**32 - 1) // n >= n."""

_DRAWS_PER_BATCH = 1 << 18


def shuffled(words: Mt19937, size: int) -> Int64Array:
    """The numbers 0 .. size - 1 as ``std::shuffle`` leaves them."""
    return shuffle_epochs(words, size, 1)


def shuffle_epochs(words: Mt19937, size: int, epochs: int) -> Int64Array:
    """The concatenated states of one vector 0 .. size - 1 that is shuffled in place ``epochs`` times."""
    if size < 2:
        return np.zeros(size * epochs, dtype=np.int64)
    sizes = _draw_sizes(size)
    vector = list(range(size))
    states = np.empty((epochs, size), dtype=np.int64)
    for first, last in _batches(epochs, len(sizes)):
        draws = draw_bounded(words, np.tile(sizes, last - first)).reshape(last - first, len(sizes))
        for epoch in range(first, last):
            targets: list[int] = _swap_targets(size, draws[epoch - first]).tolist()
            for position, target in enumerate(targets, 1):
                vector[position], vector[target] = vector[target], vector[position]
            states[epoch] = vector
    return states.reshape(-1)


def skip_epochs(words: Mt19937, size: int, epochs: int) -> None:
    """Consume the words that `shuffle_epochs` would, without shuffling."""
    if size < 2:
        return
    sizes = _draw_sizes(size)
    for first, last in _batches(epochs, len(sizes)):
        draw_bounded(words, np.tile(sizes, last - first))


def _batches(epochs: int, draws_per_epoch: int) -> list[tuple[int, int]]:
    step = max(1, _DRAWS_PER_BATCH // draws_per_epoch)
    return [(first, min(first + step, epochs)) for first in range(0, epochs, step)]


def _draw_sizes(size: int) -> NDArray[np.uint64]:
    """The range of each draw of one shuffle."""
    if size >= _PAIRED_BELOW:
        return np.arange(2, size + 1, dtype=np.uint64)
    single = [2] if size % 2 == 0 else []
    first_of_pair = np.arange(1 + len(single), size, 2, dtype=np.uint64)
    pairs = (first_of_pair + np.uint64(1)) * (first_of_pair + np.uint64(2))
    return np.concatenate([np.array(single, dtype=np.uint64), pairs])


def _swap_targets(size: int, draws: Int64Array) -> Int64Array:
    """For positions 1 .. size - 1: the position each is swapped with, from one shuffle's draws."""
    if size >= _PAIRED_BELOW:
        return draws
    singles = 1 - size % 2
    second_size = np.arange(2 + singles, size + 1, 2, dtype=np.int64) + 1
    first, second = np.divmod(draws[singles:], second_size)
    return np.concatenate([draws[:singles], np.stack([first, second], axis=1).reshape(-1)])
