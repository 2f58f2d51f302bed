"""Numbers from mt19937 words, by the transforms of libstdc++ 11 and later.

``std::uniform_int_distribution`` became Lemire's multiply-and-reject method in libstdc++ 11
(``bits/uniform_int_dist.h``, ``_S_nd``); older releases and libc++ give other numbers from the same words.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmark.traffic.mt19937 import Int64Array, Mt19937

__all__ = ["draw_bounded", "draw_index", "draw_unit"]

_TWO_32 = 1 << 32
_LOW_32 = np.uint64(_TWO_32 - 1)
_SHIFT_32 = np.uint64(32)
_MIN_WINDOW = 64
_MAX_WINDOW = 1 << 16


def draw_index(words: Mt19937, size: int, count: int) -> Int64Array:
    """``count`` draws, uniform in ``[0, size)``, with ``1 <= size < 2**32``.

    With one range, rejecting a word does not depend on what was drawn before, so the draws are the
    accepted words in order and only the position after the last one has to be found.
    """
    threshold = np.uint64((_TWO_32 - size) % size)
    parts: list[Int64Array] = []
    missing = count
    while missing > 0:
        products = words.peek(missing).astype(np.uint64) * np.uint64(size)
        accepted = products[(products & _LOW_32) >= threshold]
        words.advance(missing)
        parts.append((accepted >> _SHIFT_32).astype(np.int64))
        missing -= len(accepted)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def draw_bounded(words: Mt19937, sizes: NDArray[np.uint64]) -> Int64Array:
    """One draw for each entry of ``sizes``, uniform in ``[0, size)``, in order.

    Which word serves which draw depends on every rejection before it: windows of draws are computed as if
    none were rejected, kept up to the first rejection, and continued one word further on.
    """
    drawn = np.empty(len(sizes), dtype=np.int64)
    thresholds = (np.uint64(_TWO_32) - sizes) % sizes
    done, window = 0, _MIN_WINDOW
    while done < len(sizes):
        upcoming = slice(done, min(done + window, len(sizes)))
        wanted = upcoming.stop - upcoming.start
        products = words.peek(wanted).astype(np.uint64) * sizes[upcoming]
        rejected = (products & _LOW_32) < thresholds[upcoming]
        first = int(rejected.argmax())
        clean = wanted if not rejected[first] else first
        drawn[done : done + clean] = products[:clean] >> _SHIFT_32
        words.advance(clean if clean == wanted else clean + 1)
        done += clean
        window = min(2 * window, _MAX_WINDOW) if clean == wanted else max(_MIN_WINDOW, 2 * clean)
    return drawn


def draw_unit(words: Mt19937, count: int) -> NDArray[np.float64]:
    """``count`` draws of ``std::generate_canonical<double, 53>``, uniform in ``[0, 1)``; two words each.

    The sum of the low and the high word is rounded to a double once; a sum that rounds up to 1 becomes
    the largest double below it (``bits/random.tcc``).
    """
    pairs = words.take(2 * count).reshape(count, 2).astype(np.float64)
    units = (pairs[:, 0] + pairs[:, 1] * float(_TWO_32)) * 2.0**-64
    return np.minimum(units, np.nextafter(1.0, 0.0))
