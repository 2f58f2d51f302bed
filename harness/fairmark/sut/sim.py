"""The shape of simulated systems: pure models that a virtual clock drives.

A model has no threads, no clock and no sockets. It is told what was sent and when; it says when something
happens next, and what. Simulated systems are test instruments: their runs say so and no rule takes them for
a measurement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from fairmark.samples.sample import Sample
from fairmark.sut.api import SUT, Event

__all__ = ["SimSUT", "Simulation"]


class Simulation(ABC):
    """One run of a model. Times are virtual ns from the start of the run and never go back.

    The driver issues everything that is due at a time before it calls `advance` for what happens at that
    time, so that a model that forms batches sees simultaneous queries together. Giving up on a query is the
    driver's affair: the model is not told, and what it still says about that query is dropped.
    """

    @abstractmethod
    def issue(self, now_ns: int, seq: int, sample: Sample) -> None:
        """Take the query ``seq``. ``now_ns`` is never later than `next_ns`."""

    @abstractmethod
    def next_ns(self) -> int | None:
        """When something happens next if nothing more is issued; None if nothing ever will."""

    @abstractmethod
    def advance(self) -> Sequence[tuple[int, Event]]:
        """Let happen what happens at `next_ns`: events by ``seq``, in order. May be nothing to be seen.

        Each query ends with one `Done` or `Failed`, or never.
        """


class SimSUT(SUT, ABC):
    """A simulated system. All its randomness comes from mt19937 words and the seed it is given."""

    @abstractmethod
    def simulation(self, seed: int) -> Simulation:
        """A fresh simulation; equal seeds and equal queries give equal events."""
