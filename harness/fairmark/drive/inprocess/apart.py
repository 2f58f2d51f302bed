"""A schedule whose issuer has a process of its own, as the process of the system sees it."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from time import monotonic_ns
from typing import Final

from fairmark.drive.inprocess.engine import Engine
from fairmark.drive.inprocess.issuer import Line
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import ISSUED
from fairmark.drive.inprocess.tight import DrainedPhase
from fairmark.drive.phase import Share
from fairmark.samples.sample import Sample

__all__ = ["ApartPhase"]

_LOOK_MS: Final = 500
"""How often a silent issuer is looked after."""


class ApartPhase(DrainedPhase):
    """Hands over what the issuer has issued, in the order of the plan.

    Args:
        number: of the phase.
        samples: of the phase, in the order they are issued.
    """

    def __init__(
        self,
        part: Share,
        number: int,
        engine: Engine,
        sink: EventSink,
        samples: Sequence[Sample],
        line: Line,
    ) -> None:
        super().__init__(part, engine, sink)
        self._number = number
        self._samples = samples
        self._line = line

    def stop(self, reason: str) -> None:
        """Issue nothing more."""
        super().stop(reason)
        self._line.stop()

    def run(self, epoch_ns: int) -> str:
        """Hand over all that is issued, flush, and wait for what is in flight."""
        raised = select.poll()
        raised.register(self._line.wake, select.POLLIN)
        while not self._line.finished(self._number):
            self._take()
            if raised.poll(_LOOK_MS):
                os.eventfd_read(self._line.wake)
            elif self._line.broken and not self._line.finished(self._number):
                self.stop("worker_died")
                break
        self._take()
        self.stopped_ns = monotonic_ns()
        self._engine.flush()
        self._drain()
        reason = self._forced or self._line.reason
        assert reason is not None
        return reason

    def _take(self) -> None:
        """The columns say what was issued: the samples of the plan up to the first without a stamp."""
        issued, state, first = self._sink.stamps.issued, self._sink.state, self._share.first_seq
        hand, samples = self._engine.hand_one, self._samples
        for position in range(self.issued, len(samples)):
            seq = first + position
            if not issued[seq]:
                return
            state[seq] = ISSUED
            self.issued = position + 1
            hand(seq, samples[position])
