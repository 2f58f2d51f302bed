"""The client's own health while it drives: stalls of its loop, pauses of its collector, its share of CPU."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any, Final

import psutil

from fairmark.drive.pacing import Timerfd
from fairmark.evidence.store import LogWriter

__all__ = ["Health", "freeze_heap"]

_BEAT_NS: Final = 2_000_000
"""A stall is seen if it holds up one of these beats; every stall over twice this long does."""

_STALL_NS: Final = 1_000_000
_SLOW_BEAT_S: Final = 0.005
_SAMPLE_NS: Final = 1_000_000_000
_SHORTEST_NS: Final = 10_000_000
"""Over less time the accounting of CPU time is too coarse to give a fraction."""


def freeze_heap() -> None:
    """Collect once, then keep the collector away from everything that exists and switch it off."""
    gc.collect()
    gc.freeze()
    gc.disable()


_SCHEDSTAT: Final = Path("/proc/self/schedstat")


def _wanted_ns() -> int | None:
    """How long the main thread has used a core or waited for one since it began; None where nobody counts.

    The waits are those of proc(5) schedstat, which has zeros only where the kernel does not count.
    """
    try:
        used_ns, waited_ns = map(int, _SCHEDSTAT.read_text(encoding="ascii").split()[:2])
    except OSError:
        return None
    main = threading.main_thread().ident
    if not used_ns or main is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    # The clock, and not the first figure of the file: that one stands still between ticks of the scheduler.
    return time.clock_gettime_ns(time.pthread_getcpuclockid(main)) + waited_ns


class Health:
    """Writes health figures into the worker's log.

    Args:
        loop: None where there is none; then whoever notices a stall reports it.
        gauges: further figures to sample every second, by name.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        log: LogWriter,
        cores: Sequence[int],
        gauges: Mapping[str, Callable[[], float]],
    ) -> None:
        self._loop = loop
        self._log = log
        self._cores = cores
        self._gauges = gauges
        self._timer: Timerfd | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._expected_ns = 0
        self._pause_began_ns = 0
        self._pauses: deque[tuple[int, int]] = deque()
        self._sampled_ns = 0
        self._cpu_ns = 0
        self._wanted_ns: int | None = None
        self._steal_s = 0.0

    def start(self) -> None:
        """Begin watching."""
        gc.callbacks.append(self._collecting)
        self._sampled_ns, self._cpu_ns = monotonic_ns(), time.process_time_ns()
        self._steal_s, self._wanted_ns = self._stolen_s(), _wanted_ns()
        if self._loop is not None:
            self._start_beats(self._loop)

    def _start_beats(self, loop: asyncio.AbstractEventLoop) -> None:
        self._expected_ns = monotonic_ns() + _BEAT_NS
        if sys.platform == "linux":
            self._timer = Timerfd()
            self._timer.set(self._expected_ns, _BEAT_NS)
            loop.add_reader(self._timer.descriptor, self._beat)
        else:
            self._handle = loop.call_later(_SLOW_BEAT_S, self._slow_beat, loop)

    def stop(self) -> None:
        """Stop watching, with a last sample for the time since the one before it.

        Raises:
            DiskFullError: there is no space for that sample; the watching has stopped all the same.
        """
        gc.callbacks.remove(self._collecting)
        if self._timer is not None and self._loop is not None:
            self._loop.remove_reader(self._timer.descriptor)
            self._timer.close()
        if self._handle is not None:
            self._handle.cancel()
        now = monotonic_ns()
        if now - self._sampled_ns >= _SHORTEST_NS:
            self._write(now)
        self._log_pauses()

    def sample(self, now: int) -> None:
        """Once a second: CPU used by the process, used or waited for by its main thread (left out where waits
        are not counted), and stolen by the hypervisor; memory; the gauges.
        """
        if now - self._sampled_ns >= _SAMPLE_NS:
            self._write(now)

    def _write(self, now: int) -> None:
        elapsed_ns = now - self._sampled_ns
        cpu_ns, steal_s = time.process_time_ns(), self._stolen_s()
        self._log.health("cpu_fraction", now, (cpu_ns - self._cpu_ns) / elapsed_ns)
        wanted_ns = _wanted_ns()
        if wanted_ns is not None and self._wanted_ns is not None:
            self._log.health("busy_fraction", now, (wanted_ns - self._wanted_ns) / elapsed_ns)
        self._log.health("steal_fraction", now, (steal_s - self._steal_s) / (elapsed_ns / 1e9))
        self._log.health("resident_bytes", now, psutil.Process().memory_info().rss)
        for name, gauge in self._gauges.items():
            self._log.health(name, now, gauge())
        self._log_pauses()
        self._sampled_ns, self._cpu_ns, self._steal_s = now, cpu_ns, steal_s
        self._wanted_ns = wanted_ns

    def stalled(self, now: int, late_ns: int) -> None:
        """Something that was due ran ``late_ns`` late; short delays are no stalls."""
        if late_ns > _STALL_NS:
            self._log.health("loop_stall_ns", now, late_ns)

    def _stolen_s(self) -> float:
        """Seconds stolen from this worker's cores, the mean over them; 0 where the system does not say."""
        times = psutil.cpu_times(percpu=True)
        cores = [c for c in self._cores if c < len(times)] or range(len(times))
        return sum(getattr(times[c], "steal", 0.0) for c in cores) / len(cores)

    def _beat(self) -> None:
        assert self._timer is not None
        now = monotonic_ns()
        beats = self._timer.read()
        self.stalled(now, now - self._expected_ns)
        self._expected_ns += beats * _BEAT_NS

    def _slow_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        now = monotonic_ns()
        self.stalled(now, now - self._expected_ns)
        self._expected_ns = now + int(_SLOW_BEAT_S * 1e9)
        self._handle = loop.call_later(_SLOW_BEAT_S, self._slow_beat, loop)

    def _collecting(self, phase: str, info: Mapping[str, Any]) -> None:
        now = monotonic_ns()
        if phase == "start":
            self._pause_began_ns = now
        else:
            self._pauses.append((now, now - self._pause_began_ns))

    def _log_pauses(self) -> None:
        """Collections happen anywhere, also while a record is being written: they are logged later."""
        while self._pauses:
            self._log.health("gc_pause_ns", *self._pauses.popleft())
