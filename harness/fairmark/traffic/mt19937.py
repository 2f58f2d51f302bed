"""The 32-bit words of ``std::mt19937``, the only source of randomness in a plan."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Int64Array", "Mt19937", "Uint32Array"]

Int64Array: TypeAlias = NDArray[np.int64]
Uint32Array: TypeAlias = NDArray[np.uint32]

_WORDS_PER_REFILL = 1024


class Mt19937:
    """A stream of mt19937 words that can look ahead without consuming.

    Seeding is Knuth's (``init_genrand``) with the low 32 bits of ``seed``, as ``std::mt19937(uint64_t)``
    does. ``RandomState`` streams are frozen (NumPy NEP 19); a full-range uint32 draw is one word.
    """

    __slots__ = ("_buffer", "_generator", "_start")

    def __init__(self, seed: int) -> None:
        self._generator = np.random.RandomState(seed & 0xFFFFFFFF)
        self._buffer: Uint32Array = np.empty(0, dtype=np.uint32)
        self._start = 0

    def peek(self, count: int) -> Uint32Array:
        """The next ``count`` words, which stay unconsumed. Read-only by convention."""
        missing = count - (len(self._buffer) - self._start)
        if missing > 0:
            fresh = self._generator.randint(0, 2**32, max(missing, _WORDS_PER_REFILL), dtype=np.uint32)
            self._buffer = np.concatenate([self._buffer[self._start :], fresh])
            self._start = 0
        return self._buffer[self._start : self._start + count]

    def advance(self, count: int) -> None:
        """Consume ``count`` words that `peek` has shown."""
        self._start += count

    def take(self, count: int) -> Uint32Array:
        """Consume and return the next ``count`` words."""
        words = self.peek(count)
        self.advance(count)
        return words
