"""The control page: the one thing that coordinator and workers share while a run is on.

A mapped page of int64 words, each with one writer, so that there is no lock and no message per query. It
outlives its processes: after a crash it says which phases were reached, when, and why they ended.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fairmark.evidence.store import allocate, map_file

__all__ = ["STOP_REASONS", "Control", "WorkerBlock"]

STOP_REASONS: Final = (
    "",
    "complete",
    "steady",
    "max_queries",
    "max_duration",
    "max_outstanding",
    "plan_exhausted",
    "drain_timeout",
    "sut_failed",
    "disk_full",
    "worker_died",
    "interrupted",
    "terminated",
)
"""Why a phase ended; a word holds the position in this tuple. Later ones outrank earlier ones."""

_HEADER_WORDS: Final = 64
_WORKER_WORDS: Final = 64
_PHASES: Final = 8

_RELEASED, _STOP_LEVEL, _STOP_REASON, _COORDINATOR_ALIVE, _EPOCHS = 0, 1, 2, 3, 8
_ALIVE, _READY, _ISSUED, _COMPLETED, _FAILED, _CONNECTIONS = range(6)
_REASONS, _ENDED, _SENT_ALL = 16, 24, 32


class WorkerBlock:
    """The words that one worker writes."""

    __slots__ = ("_words",)

    def __init__(self, words: memoryview) -> None:
        self._words = words

    def beat(self, now_ns: int, issued: int, completed: int, failed: int, connections: int) -> None:
        """Say that the worker is alive, and how far it is in the current phase."""
        words = self._words
        words[_ISSUED], words[_COMPLETED], words[_FAILED] = issued, completed, failed
        words[_CONNECTIONS] = connections
        words[_ALIVE] = now_ns

    @property
    def alive_ns(self) -> int:
        """The time of the last beat; 0 before the first."""
        return self._words[_ALIVE]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Issued, completed and failed samples of the current phase."""
        return self._words[_ISSUED], self._words[_COMPLETED], self._words[_FAILED]

    @property
    def ready(self) -> int:
        """For how many phases the worker has made itself ready."""
        return self._words[_READY]

    @ready.setter
    def ready(self, phases: int) -> None:
        self._words[_READY] = phases

    def sent_all(self, phase: int) -> bool:
        """Whether the worker has issued its last query of ``phase``."""
        return bool(self._words[_SENT_ALL + phase])

    def mark_sent_all(self, phase: int) -> None:
        """Say that the last query of ``phase`` has been issued."""
        self._words[_SENT_ALL + phase] = 1

    def finish(self, phase: int, reason: str, now_ns: int) -> None:
        """Say that ``phase`` is drained and why it ended."""
        self._words[_ENDED + phase] = now_ns
        self._words[_REASONS + phase] = STOP_REASONS.index(reason)

    def reason(self, phase: int) -> str:
        """Why ``phase`` ended; empty while it has not."""
        return STOP_REASONS[self._words[_REASONS + phase]]

    def ended_ns(self, phase: int) -> int:
        """When ``phase`` was drained; 0 while it is not."""
        return self._words[_ENDED + phase]


class Control:
    """The mapped page. The coordinator writes the header, every worker its own block."""

    def __init__(self, path: Path, workers: int) -> None:
        self._map = map_file(path, write=True)
        self._words = memoryview(self._map).cast("q")
        blocks = (_HEADER_WORDS + w * _WORKER_WORDS for w in range(workers))
        self.workers = tuple(WorkerBlock(self._words[b : b + _WORKER_WORDS]) for b in blocks)

    @staticmethod
    def create(path: Path, workers: int, phases: int) -> None:
        """Reserve the page for ``phases`` phases, at most 8."""
        if phases > _PHASES:
            raise ValueError(f"a run has at most {_PHASES} phases, not {phases}")
        allocate(path, 8 * (_HEADER_WORDS + workers * _WORKER_WORDS))

    def release(self, phase: int, epoch_ns: int) -> None:
        """Let the workers start ``phase`` at ``epoch_ns``; the epoch is written before the permission."""
        self._words[_EPOCHS + phase] = epoch_ns
        self._words[_RELEASED] = phase + 1

    @property
    def released(self) -> int:
        """How many phases may have started."""
        return self._words[_RELEASED]

    def epoch_ns(self, phase: int) -> int:
        """When ``phase`` starts or started; 0 if it never was released."""
        return self._words[_EPOCHS + phase]

    def request_stop(self, level: int, reason: str) -> None:
        """Ask the workers to stop: level 1 = issue nothing more and drain, 2 = close now."""
        if not self._words[_STOP_REASON]:
            self._words[_STOP_REASON] = STOP_REASONS.index(reason)
        self._words[_STOP_LEVEL] = max(level, self._words[_STOP_LEVEL])

    def beat(self, now_ns: int) -> None:
        """Say that the coordinator is alive."""
        self._words[_COORDINATOR_ALIVE] = now_ns

    @property
    def alive_ns(self) -> int:
        """The time of the coordinator's last beat; 0 before the first."""
        return self._words[_COORDINATOR_ALIVE]

    @property
    def stop_level(self) -> int:
        """0 = go on, 1 = drain, 2 = close now."""
        return self._words[_STOP_LEVEL]

    @property
    def stop_reason(self) -> str:
        """Why the coordinator asked to stop; empty if it did not."""
        return STOP_REASONS[self._words[_STOP_REASON]]
