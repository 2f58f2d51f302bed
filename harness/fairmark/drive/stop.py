"""The wish to stop: Ctrl-C or SIGTERM once drains the run and closes it, twice closes it now."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any, Final, Literal

__all__ = ["StopReason", "StopSignal"]

StopReason = Literal["interrupted", "terminated"]

_REASONS: Final[dict[int, StopReason]] = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class StopSignal:
    """As a context manager it takes over SIGINT and SIGTERM (main thread only) and gives them back.

    Attributes:
        level: 0 = go on, 1 = issue nothing more and drain, 2 = close now.
        reason: what asked first; None at level 0.
    """

    def __init__(self) -> None:
        self.level = 0
        self.reason: StopReason | None = None
        self._previous: dict[int, Any] = {}

    def request(self, reason: StopReason) -> None:
        """Ask once more."""
        self.reason = self.reason or reason
        self.level = min(self.level + 1, 2)

    def __enter__(self) -> StopSignal:
        for number in _REASONS:
            self._previous[number] = signal.signal(number, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self.request(_REASONS[number])
