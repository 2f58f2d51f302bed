"""Progress of a run on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tqdm import tqdm

from fairmark.drive.job import Progress

__all__ = ["ProgressLine"]

_QUIET_S: Final = 10.0
"""Without a terminal: how long to stay silent inside a phase."""

_STAGES: Final = {
    "open": "starting the system under test",
    "probe": "asking it a first question",
    "calibrate": "measuring what this client can do",
    "start": "starting the driver",
    "warmup": "warm-up",
    "seal": "sealing the evidence",
    "judge": "measuring and judging",
}


class ProgressLine:
    """Shows `Progress` as it comes; a context manager that leaves the terminal clean."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._terminal = sys.stderr.isatty()
        self._stage = ""
        self._bar: tqdm[Any] | None = None
        self._next_line_s = 0.0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def __call__(self, progress: Progress) -> None:
        if progress.stage != self._stage:
            self._stage = progress.stage
            self._close_bar()
            self._next_line_s = time.monotonic() + _QUIET_S
            if not self._terminal or not progress.planned:
                self._say(self._label())
        if not progress.planned:
            return
        if self._terminal:
            self._draw(progress)
        elif time.monotonic() >= self._next_line_s:
            self._next_line_s = time.monotonic() + _QUIET_S
            failed = f", {progress.failed} failed" if progress.failed else ""
            of = "at most " if self._stage == "warmup" else ""
            self._say(f"{self._label()}: {progress.completed} of {of}{progress.planned}{failed}")

    def _label(self) -> str:
        return _STAGES.get(self._stage, self._stage)

    def _say(self, text: str) -> None:
        try:
            print(f"{self._title}: {text}", file=sys.stderr, flush=True)
        except BrokenPipeError:
            # Whoever read this went away. The run goes on, and nothing that is still to be said can end it.
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), sys.stderr.fileno())

    def _draw(self, progress: Progress) -> None:
        title = f"{self._title}: {self._label()}"
        bar = self._bar = self._bar or tqdm(total=progress.planned, desc=title, leave=False)
        bar.n = progress.completed
        in_flight = progress.issued - progress.completed
        bar.set_postfix({"in flight": in_flight, "failed": progress.failed}, refresh=False)
        bar.refresh()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
