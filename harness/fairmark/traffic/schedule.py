"""From gaps to due times, by the rule that ends LoadGen's generation loop."""

from __future__ import annotations

import math

import numpy as np

from fairmark.errors import InputError
from fairmark.traffic.arrivals import Gaps
from fairmark.traffic.mt19937 import Int64Array

__all__ = ["due_times", "up_to_multiple"]


def due_times(
    gaps: Gaps, *, until_ns: int, min_count: int, at_least: int, step: int, expected_count: float
) -> tuple[Int64Array, int]:
    """When each query is due, and when one more would have been, in ns.

    The first query is due at 0. There are ``min_count`` queries or a multiple of ``step`` more: the fewest
    whose last one is due at ``until_ns`` or later, and that number ``at_least``. One gap is drawn for every
    query, the last one too.

    Args:
        expected_count: how many queries to draw first; decides speed, not the result.

    Raises:
        InputError: the gaps end first.
    """
    ends_ns = np.empty(0, dtype=np.int64)
    floor = max(min_count, at_least)
    wanted = max(floor, math.ceil(expected_count))
    while True:
        fresh = gaps(wanted - len(ends_ns))
        offset = ends_ns[-1] if len(ends_ns) else 0
        ends_ns = np.concatenate([ends_ns, offset + np.cumsum(fresh, dtype=np.int64)])
        # Query k is due when k gaps have passed: ends_ns[k - 1].
        reaching = 1 if until_ns <= 0 else int(np.searchsorted(ends_ns, until_ns)) + 2
        count = min_count + up_to_multiple(max(floor, reaching) - min_count, step)
        if count <= len(ends_ns):
            due_ns = np.empty(count, dtype=np.int64)
            due_ns[0] = 0
            due_ns[1:] = ends_ns[: count - 1]
            return due_ns, int(ends_ns[count - 1])
        if len(ends_ns) < wanted:
            raise InputError(
                f"end after {len(ends_ns)} arrivals and {(ends_ns[-1] if len(ends_ns) else 0) / 1e9:.3f} s, "
                f"before the run's floors ({floor} queries, {until_ns / 1e9:.3f} s)",
                field="arrivals.trace",
                accepted="a longer recording, or lower floors",
            )
        wanted = max(count, wanted + wanted // 8)


def up_to_multiple(count: int, step: int) -> int:
    """The smallest multiple of ``step`` that is not below ``count``."""
    return -(-count // step) * step
