"""One phase in one worker: policy, pacer and client tied together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sized
from dataclasses import dataclass
from time import monotonic_ns
from typing import Final, Protocol

import numpy as np

from fairmark.drive.pacing import PacerName, make_pacer
from fairmark.drive.policy import Policy, share
from fairmark.evidence.live import LivePhase
from fairmark.evidence.store import Stamps

__all__ = ["PhaseLoop", "Sender", "Share"]

_BURST: Final = 32
"""Queries issued in one turn of the loop when several are due; then its sockets get their turn."""

_LOST_AFTER: Final = 20
_LOST_AFTER_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """A worker's share of a phase: unit j of the share is unit ``worker + j * workers`` of the phase.

    Attributes:
        first_seq: seq of the phase's first sample.
        offsets: int64[units + 1] of the whole phase, or None where every unit is one sample.
        due_ns: int64[units of the share] from the epoch; empty in closed loops.
    """

    units: int
    worker: int
    workers: int
    first_seq: int
    offsets: memoryview | None
    due_ns: memoryview

    @classmethod
    def of(cls, phase: LivePhase, first_seq: int, worker: int, workers: int) -> Share:
        """The share of ``worker`` in ``phase``."""
        single = phase.by_sample or phase.samples == phase.queries
        due_ns = np.empty(0, np.int64) if phase.due_ns is None else phase.due_ns[worker::workers]
        return cls(
            units=share(phase.units, worker, workers),
            worker=worker,
            workers=workers,
            first_seq=first_seq,
            offsets=None if single else np.ascontiguousarray(phase.offsets).data,
            due_ns=np.ascontiguousarray(due_ns).data,
        )

    def seqs(self, unit: int) -> range:
        """The samples of a unit of the share."""
        number = self.worker + unit * self.workers
        if self.offsets is None:
            return range(self.first_seq + number, self.first_seq + number + 1)
        return range(self.first_seq + self.offsets[number], self.first_seq + self.offsets[number + 1])


class Sender(Protocol):
    """What a phase sends through: `fairmark.drive.http.client.Client` has the meaning of each.

    Attributes:
        finished: called with the seq, the time and whether it succeeded, once a sample has ended.
    """

    finished: Callable[[int, int, bool], None]

    @property
    def stamps(self) -> Stamps:
        """The columns that it writes."""

    @property
    def in_flight(self) -> Sized:
        """What has been sent and has not ended."""

    @property
    def refusals(self) -> int:
        """How many queries in a row were refused a connection."""

    @property
    def refused_since_ns(self) -> int:
        """When the first of them was."""

    def send(self, seq: int, now: int) -> None:
        """Send sample ``seq``, whose time has come."""

    def sweep(self, now: int) -> None:
        """End what is over time."""

    def refill(self, now: int) -> None:
        """Make up for lost connections."""

    def abort(self, now: int) -> None:
        """End everything in flight as aborted."""


class PhaseLoop:
    """Issues a share of a phase and waits until it is drained.

    Attributes:
        issued, completed, failed: samples so far.
        stopped_ns: when the last one was issued; 0 while more may come.

    Args:
        sent_last: called once when nothing more will be issued.
    """

    def __init__(
        self,
        part: Share,
        policy: Policy,
        client: Sender,
        *,
        pacer: PacerName | None,
        sent_last: Callable[[], None] | None = None,
    ) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._share = part
        self._policy = policy
        self._client = client
        self._sent_last = sent_last
        self._pacer = make_pacer(loop, self._advance, pacer)
        self._drained: asyncio.Future[None] = loop.create_future()
        self._epoch_ns = 0
        self._armed_ns = 0
        self._forced: str | None = None
        self.stopped_ns = 0
        self._open_units: dict[int, list[int]] = {}
        self.issued = self.completed = self.failed = 0
        self._sent = client.stamps.sent
        self._first_seq, self._stride = part.first_seq + part.worker, part.workers
        # Every call on the way of a query costs a client core a percent of what it can do.
        single = part.offsets is None
        self._issue = self._issue_single if single else self._issue_query
        client.finished = self._single_finished if single else self._part_finished

    @property
    def pacer_name(self) -> PacerName:
        """Which pacer runs."""
        return self._pacer.name

    @property
    def sent_all(self) -> bool:
        """Whether nothing more will be issued."""
        return self._forced is not None or self._policy.ended is not None

    async def run(self, epoch_ns: int) -> str:
        """Start at ``epoch_ns`` and return, once drained, why the phase ended."""
        self._epoch_ns = epoch_ns
        self._arm(epoch_ns)
        await self._drained
        self._pacer.close()
        reason = self._forced or self._policy.ended
        assert reason is not None
        return reason

    def stop(self, reason: str) -> None:
        """Issue nothing more; what is in flight may still end."""
        self._forced = self._forced or reason
        self._advance()

    def abort(self, reason: str) -> None:
        """Issue nothing more and end what is in flight as aborted."""
        self._forced = self._forced or reason
        self._client.abort(monotonic_ns())
        self._advance()

    def tick(self, now: int, drain_ns: int, *, open_loop: bool) -> None:
        """What need not be done per query: time-outs, a lost server, the end of patience."""
        self._client.sweep(now)
        self._client.refill(now)
        since = self._client.refused_since_ns
        if self._client.refusals >= _LOST_AFTER and (not open_loop or now - since >= _LOST_AFTER_NS):
            self.stop("sut_failed")
        if self.stopped_ns and now - self.stopped_ns > drain_ns and not self._drained.done():
            self.abort("drain_timeout")

    def _advance(self) -> None:
        """Issue what is due, arrange for the next call, or end the phase."""
        policy, epoch_ns = self._policy, self._epoch_ns
        for _ in range(_BURST):
            due_ns = policy.due_ns() if self._forced is None else None
            if due_ns is None:
                if self._forced is not None or policy.ended is not None:
                    self._end()
                return
            now = monotonic_ns()
            if now - epoch_ns < due_ns:
                self._arm(epoch_ns + due_ns)
                return
            self._issue(policy.issue(now - epoch_ns), now)
        self._arm(monotonic_ns())

    def _arm(self, deadline_ns: int) -> None:
        """Have `_advance` called then; in open loops every completion comes here with the same deadline."""
        if deadline_ns != self._armed_ns:
            self._armed_ns = deadline_ns
            self._pacer.arm(deadline_ns)

    def _issue_single(self, unit: int, now: int) -> None:
        self.issued += 1
        self._client.send(self._first_seq + unit * self._stride, now)

    def _issue_query(self, unit: int, now: int) -> None:
        seqs = self._share.seqs(unit)
        self.issued += len(seqs)
        open_unit = [len(seqs), 0]
        self._open_units.update(dict.fromkeys(seqs, open_unit))
        for seq in seqs:
            self._client.send(seq, now)

    def _single_finished(self, seq: int, now: int, ok: bool) -> None:
        if ok:
            self.completed += 1
        else:
            self.failed += 1
        self._policy.completed(now - self._epoch_ns, now - (self._sent[seq] or now))
        self._advance()

    def _part_finished(self, seq: int, now: int, ok: bool) -> None:
        """A query of several samples ends with its last sample."""
        if ok:
            self.completed += 1
        else:
            self.failed += 1
        open_unit = self._open_units.pop(seq)
        open_unit[0] -= 1
        open_unit[1] = max(open_unit[1], now - (self._sent[seq] or now))
        if not open_unit[0]:
            self._policy.completed(now - self._epoch_ns, open_unit[1])
            self._advance()

    def _end(self) -> None:
        self._pacer.cancel()
        if not self.stopped_ns:
            self.stopped_ns = monotonic_ns()
            if self._sent_last is not None:
                self._sent_last()
        if not self._client.in_flight and not self._drained.done():
            self._drained.set_result(None)
