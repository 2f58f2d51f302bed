"""The issuer of a schedule in a process of its own: ``python -m fairmark.drive.inprocess.issuer STORE FD``.

An engine that holds the interpreter lock would keep an issuer beside it from being on time. Here the issuer
has an interpreter to itself. It stamps into the run's own columns, which also say what was issued: the
system's process reads them in order, woken through the event descriptor FD. Nothing else passes between the
two but four words of a mapped page, each with one writer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Final

from fairmark.drive.health import freeze_heap
from fairmark.drive.inprocess.tight import calm, is_schedule
from fairmark.drive.inprocess.waiting import sharpen_timers, wait_until
from fairmark.drive.orders import Orders, read_orders
from fairmark.drive.phase import Share
from fairmark.drive.policy import Limits
from fairmark.evidence.control import STOP_REASONS
from fairmark.evidence.live import LiveStore, open_store
from fairmark.evidence.store import Stamps, allocate, map_file

__all__ = ["Line", "issuer", "main"]

_PAGE: Final = "issuer.bin"
_READY, _DONE, _REASON, _STOP = range(4)
_PERMISSION_S: Final = 0.001


class Line:
    """What issuer and system share. The issuer writes all words but ``stopped``.

    Args:
        wake: the event descriptor that is raised after each query and after each phase.
        process: the issuer, for the system.
    """

    def __init__(self, folder: Path, wake: int, process: subprocess.Popen[bytes] | None = None) -> None:
        self._words = memoryview(map_file(folder / _PAGE, write=True)).cast("q")
        self._process = process
        self.wake = wake

    @property
    def broken(self) -> bool:
        """Whether the issuer is gone."""
        return self._process is not None and self._process.poll() is not None

    @property
    def ready(self) -> bool:
        """Whether the issuer waits for its first phase."""
        return bool(self._words[_READY])

    def mark_ready(self) -> None:
        """Say so."""
        self._words[_READY] = 1

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be issued."""
        return bool(self._words[_STOP])

    def stop(self) -> None:
        """Issue nothing more."""
        self._words[_STOP] = 1

    def finish(self, number: int, reason: str | None) -> None:
        """The last query of phase ``number`` is out; ``reason`` is None if it was stopped."""
        self._words[_REASON] = STOP_REASONS.index(reason or "")
        self._words[_DONE] = number + 1
        os.eventfd_write(self.wake, 1)

    def finished(self, number: int) -> bool:
        """Whether the last query of phase ``number`` is out."""
        return self._words[_DONE] > number

    @property
    def reason(self) -> str | None:
        """Why the phase that is done ended; None if it was stopped."""
        return STOP_REASONS[self._words[_REASON]] or None


@contextmanager
def issuer(folder: Path) -> Iterator[Line]:
    """Start an issuer on a live store; it is gone afterwards."""
    allocate(folder / _PAGE, 64)
    wake = os.eventfd(0)
    command = [sys.executable, "-m", __name__, str(folder), str(wake)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(wake,))
    try:
        yield Line(folder, wake, process)
    finally:
        process.kill()
        process.wait()
        os.close(wake)


class _Issuer:
    """Issues the phases that are schedules, one after the other."""

    def __init__(self, store: LiveStore, orders: Orders, line: Line) -> None:
        self._store = store
        self._orders = orders
        self._line = line
        self._control = store.control()
        self._stamps: Stamps = store.columns(write=True).stamps
        self._system = os.getppid()

    def run(self) -> None:
        """Wait for each phase, and issue it."""
        self._line.mark_ready()
        for number, phase in enumerate(self._store.phases):
            part = Share.of(phase, self._store.first_seq[number], 0, 1)
            orders = self._orders.phases[number]
            if not is_schedule(orders, part):
                continue
            while self._control.released <= number:
                if self._stopped():
                    return
                time.sleep(_PERMISSION_S)
            reason = self._issue(part, orders.limits, self._control.epoch_ns(number))
            self._line.finish(number, reason)

    def _issue(self, part: Share, limits: Limits, epoch_ns: int) -> str | None:
        issued, first, total = self._stamps.issued, part.first_seq, part.units
        raise_event, wake = os.eventfd_write, self._line.wake
        units, until_ns = calm(limits, 0, total)
        for count, due in enumerate(part.due_ns, 1):
            if not wait_until(epoch_ns + due, self._stopped):
                return None
            now = monotonic_ns()
            issued[first + count - 1] = now
            raise_event(wake, 1)
            if count >= units or now - epoch_ns >= until_ns:
                reason = limits.end(count, total, now - epoch_ns)
                if reason:
                    return reason
                units, until_ns = calm(limits, count, total)
        return None

    def _stopped(self) -> bool:
        return self._line.stopped or bool(self._control.stop_level) or os.getppid() != self._system


def main(arguments: Sequence[str]) -> None:
    """Issue the schedules of the live store ``arguments[0]``, raising the descriptor ``arguments[1]``."""
    folder = Path(arguments[0])
    sharpen_timers()
    issuing = _Issuer(open_store(folder), read_orders(folder), Line(folder, int(arguments[1])))
    freeze_heap()
    issuing.run()


if __name__ == "__main__":
    main(sys.argv[1:])
