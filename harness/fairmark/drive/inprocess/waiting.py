"""Waiting until an absolute time in a thread: sleep, then spin over the rest.

The spin holds the interpreter lock, which the engine may need; so it is short, and the kernel is asked to
wake the thread on time instead of at its convenience.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from time import monotonic_ns
from typing import Final

__all__ = ["sharpen_timers", "wait_until"]

_SPIN_NS: Final = 100_000
_NAP_NS: Final = 50_000_000
_PR_SET_TIMERSLACK: Final = 29


def sharpen_timers() -> int | None:
    """Have the kernel wake this thread within a nanosecond instead of 50 us; the slack in ns, None where it
    cannot be set.
    """
    if sys.platform != "linux":
        return None
    failed = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    return None if failed else 1


def wait_until(deadline_ns: int, unwanted: Callable[[], bool]) -> bool:
    """Return at ``deadline_ns``, or earlier with False once ``unwanted`` says so, within 50 ms."""
    while (left_ns := deadline_ns - monotonic_ns()) > _SPIN_NS:
        if unwanted():
            return False
        time.sleep(min(left_ns - _SPIN_NS, _NAP_NS) / 1e9)
    while monotonic_ns() < deadline_ns:
        pass
    return not unwanted()
