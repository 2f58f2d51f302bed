"""Waiting until an absolute time inside an event loop, to the microsecond.

Event-loop timers count in milliseconds. On Linux a timer descriptor wakes the loop shortly before the
deadline, and re-queued callbacks spin over the rest; elsewhere a loop timer does the waking, with a wider
margin to spin over. Which pacer ran is part of the evidence.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from collections.abc import Callable
from time import monotonic_ns
from typing import ClassVar, Final, Literal, Protocol

from fairmark.errors import InputError

__all__ = ["PACERS", "Pacer", "PacerName", "SleepPacer", "Timerfd", "TimerfdPacer", "make_pacer"]

PacerName = Literal["timerfd+spin", "sleep+spin"]
PACERS: Final[tuple[PacerName, ...]] = ("timerfd+spin", "sleep+spin")

_SLEEP_MARGIN_NS: Final = 2_000_000
"""Loop timers are whole milliseconds and may fire one late."""

_SPIN_NS: Final = 100_000
"""Wake-up from a timer descriptor takes 30 to 50 us; twice that costs a tenth of a core at 1000/s."""

_CLOCK_MONOTONIC: Final = 1
_TFD_TIMER_ABSTIME: Final = 1


class _Timespec(ctypes.Structure):
    _fields_: ClassVar = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


class _Itimerspec(ctypes.Structure):
    _fields_: ClassVar = [("interval", _Timespec), ("value", _Timespec)]


class Timerfd:
    """A Linux timer descriptor on CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _Itimerspec()

    def set(self, first_ns: int, interval_ns: int = 0) -> None:
        """Expire at the absolute time ``first_ns``, then every ``interval_ns``."""
        spec = self._spec
        spec.value.sec, spec.value.nsec = divmod(max(first_ns, 1), 1_000_000_000)
        spec.interval.sec, spec.interval.nsec = divmod(interval_ns, 1_000_000_000)
        if self._libc.timerfd_settime(self.descriptor, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def read(self) -> int:
        """How often it has expired since the last read."""
        try:
            return int.from_bytes(os.read(self.descriptor, 8), sys.byteorder)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.descriptor)


class Pacer(Protocol):
    """Calls back at absolute times, one at a time."""

    name: PacerName

    def arm(self, deadline_ns: int) -> None:
        """Call back at ``deadline_ns``, or soon if that has passed. Replaces an earlier deadline."""

    def cancel(self) -> None:
        """Forget the deadline."""

    def close(self) -> None:
        """Cancel, and give back what the pacer holds."""


class _Spin:
    """The last stretch: callbacks re-queue themselves, so that the loop goes on serving its sockets."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._deadline_ns = 0
        self._queued = False

    def start(self, deadline_ns: int) -> None:
        self._deadline_ns = deadline_ns
        if not self._queued:
            self._queued = True
            self._loop.call_soon(self._turn)

    def cancel(self) -> None:
        self._deadline_ns = 0

    def _turn(self) -> None:
        self._queued = False
        deadline_ns = self._deadline_ns
        if not deadline_ns:
            return
        if monotonic_ns() >= deadline_ns:
            self._deadline_ns = 0
            self._callback()
        else:
            self._queued = True
            self._loop.call_soon(self._turn)


class TimerfdPacer:
    """Wakes 100 us early by a timer descriptor, then spins."""

    name: PacerName = "timerfd+spin"

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._timer = Timerfd()
        self._spin = _Spin(loop, callback)
        self._deadline_ns = 0
        loop.add_reader(self._timer.descriptor, self._woken)

    def arm(self, deadline_ns: int) -> None:
        """Call back at ``deadline_ns``."""
        self._deadline_ns = deadline_ns
        if deadline_ns - monotonic_ns() <= _SPIN_NS:
            self._spin.start(deadline_ns)
        else:
            self._spin.cancel()
            self._timer.set(deadline_ns - _SPIN_NS)

    def cancel(self) -> None:
        """Forget the deadline."""
        self._deadline_ns = 0
        self._spin.cancel()

    def close(self) -> None:
        """Close the timer descriptor."""
        self.cancel()
        self._loop.remove_reader(self._timer.descriptor)
        self._timer.close()

    def _woken(self) -> None:
        if self._timer.read() and self._deadline_ns:
            self._spin.start(self._deadline_ns)


class SleepPacer:
    """Wakes 2 ms early by a loop timer, then spins."""

    name: PacerName = "sleep+spin"

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._spin = _Spin(loop, callback)
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, deadline_ns: int) -> None:
        """Call back at ``deadline_ns``."""
        self.cancel()
        sleep_ns = deadline_ns - monotonic_ns() - _SLEEP_MARGIN_NS
        if sleep_ns <= 0:
            self._spin.start(deadline_ns)
        else:
            self._timer = self._loop.call_later(sleep_ns / 1e9, self._spin.start, deadline_ns)

    def cancel(self) -> None:
        """Forget the deadline."""
        self._spin.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Nothing is held but the timer."""
        self.cancel()


def make_pacer(
    loop: asyncio.AbstractEventLoop, callback: Callable[[], None], name: PacerName | None = None
) -> Pacer:
    """The pacer called ``name``, or the best one this system has.

    Raises:
        InputError: ``name`` is not the name of a pacer.
    """
    if name is None:
        name = "timerfd+spin" if sys.platform == "linux" else "sleep+spin"
    if name == "timerfd+spin":
        return TimerfdPacer(loop, callback)
    if name == "sleep+spin":
        return SleepPacer(loop, callback)
    raise InputError("there is no such pacer", field="pacer", value=name, accepted=", ".join(PACERS))
