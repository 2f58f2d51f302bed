"""One phase on the virtual clock: policy and simulation tied together by the next thing that happens.

The counterpart of `fairmark.drive.phase`: the same policies, the same time-outs and the same ends, without a
pacer, a loop or a socket. Nothing is ever late: what is due at a time is issued at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, ParamSpec, TypeVar

from fairmark.drive.phase import Share
from fairmark.drive.policy import Policy
from fairmark.drive.stop import StopSignal
from fairmark.drive.virtual.recorder import Recorder
from fairmark.errors import SutError
from fairmark.samples.sample import Sample
from fairmark.sut.api import Chunk, Failed
from fairmark.sut.sim import Simulation

__all__ = ["Patience", "PhaseEnd", "VirtualPhase", "World", "ask"]

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_EVERY: Final = 4096
_FAR_NS: Final = 1 << 62
"""Later than anything: a closed loop whose slots all wait issues nothing on its own."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one query, and the end of a phase, may take."""

    query_ns: int
    drain_ns: int


@dataclass(frozen=True, slots=True)
class PhaseEnd:
    """Why a phase ended and when it was drained, in ns from the start of the run."""

    reason: str
    ended_ns: int
    detail: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """What outlives a phase.

    Attributes:
        samples: the samples that may be asked for, by index.
        given_up: queries that the driver ended while the simulation goes on with them.
        flush: called once per phase, when nothing more is issued.
    """

    simulation: Simulation
    recorder: Recorder
    samples: Mapping[int, Sample]
    given_up: set[int]
    flush: Callable[[], None]


@dataclass(slots=True)
class _Unit:
    """A query of several samples: it ends with its last one."""

    left: int


class VirtualPhase:
    """Issues a phase and lets the simulation answer until all is drained.

    Attributes:
        issued, completed, failed: samples so far.
        now_ns: from the start of the run.
    """

    def __init__(
        self,
        world: World,
        part: Share,
        policy: Policy,
        sample_index: Sequence[int],
        patience: Patience,
        stop: StopSignal,
    ) -> None:
        self._world = world
        self._part = part
        self._policy = policy
        self._sample_index = sample_index
        self._patience = patience
        self._stop = stop
        self._epoch_ns = self.now_ns = 0
        self._forced: str | None = None
        self._stopped_ns: int | None = None
        self._in_flight: dict[int, bool] = {}
        self._units: dict[int, _Unit] = {}
        self.issued = self.completed = self.failed = 0

    def run(self, epoch_ns: int, watch: Callable[[VirtualPhase], None]) -> PhaseEnd:
        """Start at ``epoch_ns`` and return once drained.

        A simulation that raises or breaks its contract ends the phase as ``sut_failed``.

        Args:
            watch: called now and then.
        """
        self._epoch_ns = self.now_ns = epoch_ns
        turns = 0
        try:
            while self._turn():
                turns += 1
                if turns % _LOOK_EVERY == 0:
                    watch(self)
        except SutError as error:
            self._abort("sut_failed")
            return PhaseEnd("sut_failed", self.now_ns, str(error))
        watch(self)
        reason = self._forced or self._policy.ended
        assert reason is not None
        return PhaseEnd(reason, self.now_ns)

    def _turn(self) -> bool:
        """Issue what is due, then go to the next thing that happens; False when there is none."""
        self._heed_stop()
        self._issue_due()
        if self._stopped_ns is not None and not self._in_flight:
            return False
        happens_ns = ask(self._world.simulation.next_ns)
        if happens_ns is not None and happens_ns < self.now_ns:
            raise SutError(f"the simulation goes back in time, from {self.now_ns} ns to {happens_ns} ns")
        following_ns = self._own_next_ns()
        if happens_ns is not None and happens_ns <= following_ns:
            self.now_ns = happens_ns
            self._advance()
        else:
            self.now_ns = following_ns
            self._lose_patience()
        return True

    def _own_next_ns(self) -> int:
        """When the driver itself does something next: issue, give up on a query, end the draining."""
        if self._stopped_ns is not None:
            next_ns = self._stopped_ns + self._patience.drain_ns
        else:
            due_ns = self._policy.due_ns()
            next_ns = _FAR_NS if due_ns is None else self._epoch_ns + due_ns
        return min(next_ns, self._oldest_deadline_ns()) if self._in_flight else next_ns

    def _oldest_deadline_ns(self) -> int:
        """In-flight queries are in the order they were issued."""
        return self._world.recorder.issued[next(iter(self._in_flight))] + self._patience.query_ns

    def _heed_stop(self) -> None:
        if self._stop.level:
            self._forced = self._forced or self._stop.reason
            if self._stop.level >= 2:
                self._abort(self._stop.reason or "interrupted")

    def _issue_due(self) -> None:
        policy = self._policy
        while self._forced is None and policy.ended is None:
            due_ns = policy.due_ns()
            if due_ns is None or self._epoch_ns + due_ns > self.now_ns:
                return
            self._issue(policy.issue(self.now_ns - self._epoch_ns))
        if self._stopped_ns is None:
            self._stopped_ns = self.now_ns
            ask(self._world.flush)

    def _issue(self, number: int) -> None:
        world, seqs = self._world, self._part.seqs(number)
        self.issued += len(seqs)
        if self._part.offsets is not None:
            self._units.update(dict.fromkeys(seqs, _Unit(len(seqs))))
        for seq in seqs:
            world.recorder.issued[seq] = self.now_ns
            self._in_flight[seq] = False
            sample = world.samples[self._sample_index[seq - self._part.first_seq]]
            ask(world.simulation.issue, self.now_ns, seq, sample)

    def _advance(self) -> None:
        world = self._world
        for seq, event in ask(world.simulation.advance):
            if seq not in self._in_flight:
                if seq not in world.given_up:
                    raise SutError(f"the simulation reports {event} of query {seq}, which is not in flight")
                continue
            if world.recorder.event(seq, self.now_ns, event):
                self._finish(seq, ok=not isinstance(event, Failed))
            elif isinstance(event, Chunk):
                self._in_flight[seq] = True

    def _lose_patience(self) -> None:
        """End what is over time: with an answer begun it stalled, without one it timed out."""
        while self._in_flight and self._oldest_deadline_ns() <= self.now_ns:
            seq, answered = next(iter(self._in_flight.items()))
            if answered:
                failed = Failed("stalled", "the response did not finish within the query timeout")
            else:
                failed = Failed("timeout", "no event within the query timeout")
            self._give_up(seq, failed)
        stopped_ns = self._stopped_ns
        if stopped_ns is not None and self.now_ns >= stopped_ns + self._patience.drain_ns:
            self._abort("drain_timeout")

    def _abort(self, reason: str) -> None:
        if self._in_flight:
            self._forced = self._forced or reason
        for seq in list(self._in_flight):
            self._give_up(seq, Failed("aborted", "the run ended first"))

    def _give_up(self, seq: int, failed: Failed) -> None:
        self._world.recorder.fail(seq, self.now_ns, failed)
        self._world.given_up.add(seq)
        self._finish(seq, ok=False)

    def _finish(self, seq: int, *, ok: bool) -> None:
        """A sample ended; a query does with its last sample."""
        del self._in_flight[seq]
        if ok:
            self.completed += 1
        else:
            self.failed += 1
        unit = self._units.pop(seq, None)
        if unit is not None:
            unit.left -= 1
            if unit.left:
                return
        # All samples of a unit are issued at the same time: its last one took the longest.
        service_ns = self.now_ns - self._world.recorder.issued[seq]
        self._policy.completed(self.now_ns - self._epoch_ns, service_ns)


def ask(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call into the system under test; what it raises is its own failure, and not the driver's.

    Raises:
        SutError: it raised something.
    """
    try:
        return call(*args, **kwargs)
    except Exception as error:
        raise SutError(f"the simulation raised {type(error).__name__}: {error}") from error
