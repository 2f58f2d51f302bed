"""The worker processes of a run: started, watched, let through the phases, and always ended."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import IO, Final

from fairmark.drive.worker import FATAL
from fairmark.evidence.live import LiveStore

__all__ = ["WORKER", "Crew", "last_message"]

WORKER: Final = "fairmark.drive.worker"
_POLL_S: Final = 0.02
_HEADSTART_NS: Final = 20_000_000
"""From permission to epoch: ten times what workers need to notice."""

_EXIT_PATIENCE_S: Final = 5.0
_CLOSE_PATIENCE_NS: Final = 10_000_000_000
_OF_TRACEBACK: Final = re.compile(
    r"\s|Traceback \(most recent call last\):|During handling of the above exception,|The above exception was"
)
_SILENCE_NS: Final = 60_000_000_000
"""Workers beat fifty times a second; only while they open connections do they keep silent for a while."""


def last_message(log: str) -> str:
    """The last line of ``log`` that says something: none of the frames of a traceback, be it cut short."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip() and not _OF_TRACEBACK.match(line)]
    return lines[-1] if lines else ""


class Crew:
    """The workers of one run, as a context manager: none outlives it.

    Args:
        heads: the request heads, one per endpoint.
        logs: where the workers' error output goes.
        lock: a descriptor that every worker holds open as long as it lives.
        module: what a worker runs.
        patience_s: how long workers may take to exit after the last phase.
    """

    def __init__(
        self,
        store: LiveStore,
        heads: Sequence[bytes],
        logs: Path,
        lock: int | None = None,
        *,
        module: str = WORKER,
        patience_s: float = _EXIT_PATIENCE_S,
    ) -> None:
        self._store = store
        self._heads = json.dumps([head.decode("latin-1") for head in heads]).encode()
        self._logs = logs
        self._module = module
        self._patience_s = patience_s
        self._lock = () if lock is None else (lock,)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._files: list[IO[bytes]] = []
        self._started_ns = monotonic_ns()
        self.control = store.control()
        self.detail: str | None = None

    def __enter__(self) -> Crew:
        try:
            for number in range(self._store.workers):
                self._start(number)
        except BaseException:
            self._end(patience_s=0.0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(patience_s=self._patience_s if kind is None else 0.0)

    def _start(self, number: int) -> None:
        self._files.append((self._logs / f"worker-{number}.log").open("wb"))
        # A session of its own: Ctrl-C in the terminal is the coordinator's to handle.
        process = subprocess.Popen(
            [sys.executable, "-m", self._module, str(self._store.folder), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._files[-1],
            start_new_session=True,
            pass_fds=self._lock,
        )
        self._processes.append(process)
        assert process.stdin is not None
        # A worker that is gone already is found, with its last words, when it is looked at.
        with contextlib.suppress(BrokenPipeError), process.stdin as heads:
            heads.write(self._heads)

    def _end(self, patience_s: float) -> None:
        """Give the workers ``patience_s`` to exit, then kill them."""
        deadline = time.monotonic() + patience_s
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for file in self._files:
            file.close()

    def drive(self, phase: int, watch: Callable[[], None]) -> bool:
        """Take all workers through ``phase``.

        Args:
            watch: called at every look at the workers; it may ask the control page to stop.

        Returns:
            Whether the next phase may follow.
        """
        self._wait(lambda number: self.control.workers[number].ready > phase, phase, watch)
        if self._stopped(phase):
            self._wait(lambda number: bool(self.control.workers[number].reason(phase)), phase, watch)
            return False
        self.control.release(phase, monotonic_ns() + _HEADSTART_NS)
        self._wait(lambda number: bool(self.control.workers[number].reason(phase)), phase, watch)
        return not self._stopped(phase)

    def _stopped(self, phase: int) -> bool:
        return bool(self.control.stop_level) or any(w.reason(phase) in FATAL for w in self.control.workers)

    def _wait(self, done: Callable[[int], bool], phase: int, watch: Callable[[], None]) -> None:
        """Look at the workers until each of them is done or has exited."""
        closing_since_ns = 0
        while True:
            self.control.beat(monotonic_ns())
            watch()
            gone = [number for number, process in enumerate(self._processes) if process.poll() is not None]
            self._spread(phase, gone)
            if all(number in gone or done(number) for number in range(len(self._processes))):
                return
            now = monotonic_ns()
            if self.control.stop_level >= 2:
                closing_since_ns = closing_since_ns or now
                if now - closing_since_ns > _CLOSE_PATIENCE_NS:
                    self._kill(range(len(self._processes)), "did not close when told to")
            self._kill([n for n in self._silent(now) if n not in gone], "hung")
            time.sleep(_POLL_S)

    def _silent(self, now: int) -> list[int]:
        """Workers that have given no sign of life for too long."""
        beats = (max(worker.alive_ns, self._started_ns) for worker in self.control.workers)
        return [number for number, beat_ns in enumerate(beats) if now - beat_ns > _SILENCE_NS]

    def _spread(self, phase: int, gone: Sequence[int]) -> None:
        """What ends one worker ends the run: the others stop issuing and drain."""
        for number in gone:
            if not self.control.workers[number].reason(phase):
                code = self._processes[number].returncode
                self.detail = (
                    self.detail or f"worker {number} ended with code {code}{self._last_line(number)}"
                )
                self.control.request_stop(1, "worker_died")
        for number, worker in enumerate(self.control.workers):
            reason = worker.reason(phase)
            if reason in FATAL and not self.control.stop_level:
                self.detail = self.detail or (self._last_line(number).removeprefix(": ") or None)
                self.control.request_stop(1, reason)

    def _last_line(self, number: int) -> str:
        message = last_message((self._logs / f"worker-{number}.log").read_text("utf-8", "replace"))
        return f": {message}" if message else ""

    def _kill(self, numbers: Iterable[int], reason: str) -> None:
        for number in numbers:
            self.detail = self.detail or f"worker {number} {reason}"
            self._processes[number].kill()
            self._processes[number].wait()
