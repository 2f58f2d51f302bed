"""The known truth: how long the simulated engine takes, and how many requests it serves at once."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ServiceModel", "ServiceTimes", "Slots"]


@dataclass(frozen=True, slots=True)
class ServiceTimes:
    """The times drawn for one request, counted from the start of its service."""

    ttft_ns: int
    tpot_ns: int

    def token_ns(self, position: int) -> int:
        """When token ``position`` (from 0) is ready."""
        return self.ttft_ns + position * self.tpot_ns


class ServiceModel:
    """Time to first token and time per token, each constant or log-normal with a given mean.

    Args:
        ttft_s: mean time to first token, without queueing.
        tpot_s: mean time between tokens; one value is drawn per request.
        ttft_cv: coefficient of variation of the first; 0 makes it constant.
        tpot_cv: coefficient of variation of the second.
        seed: equal seeds give equal times in order of arrival.
    """

    def __init__(self, ttft_s: float, tpot_s: float, ttft_cv: float, tpot_cv: float, seed: int) -> None:
        self._ttft = (ttft_s, ttft_cv)
        self._tpot = (tpot_s, tpot_cv)
        self._rng = random.Random(seed)

    def draw(self) -> ServiceTimes:
        """The times of the next request."""
        return ServiceTimes(self._draw_ns(*self._ttft), self._draw_ns(*self._tpot))

    def _draw_ns(self, mean_s: float, cv: float) -> int:
        if cv == 0.0 or mean_s == 0.0:
            return round(mean_s * 1e9)
        # A log-normal with this mean and variation has sigma^2 = ln(1 + cv^2), mu = ln(mean) - sigma^2 / 2.
        variance = math.log1p(cv * cv)
        return round(self._rng.lognormvariate(math.log(mean_s) - variance / 2, math.sqrt(variance)) * 1e9)


class Slots:
    """``servers`` places, first come, first served; None means as many as are asked for."""

    def __init__(self, servers: int | None) -> None:
        self._free = math.inf if servers is None else servers
        self._waiting: deque[Callable[[], None]] = deque()
        self._handing_out = False

    @property
    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._waiting)

    def acquire(self, start: Callable[[], None]) -> None:
        """Call ``start`` as soon as a place is free; at once, when one is and nobody came before."""
        self._waiting.append(start)
        self._hand_out()

    def withdraw(self, start: Callable[[], None]) -> bool:
        """Take a waiting ``start`` back; False when it has been called already."""
        try:
            self._waiting.remove(start)
        except ValueError:
            return False
        return True

    def release(self) -> None:
        """Give a place back."""
        self._free += 1
        self._hand_out()

    def _hand_out(self) -> None:
        # A request that takes no time gives its place back before ``start`` returns: without the flag a long
        # queue of those would be as many nested calls.
        if self._handing_out:
            return
        self._handing_out = True
        try:
            while self._free and self._waiting:
                self._free -= 1
                self._waiting.popleft()()
        finally:
            self._handing_out = False
