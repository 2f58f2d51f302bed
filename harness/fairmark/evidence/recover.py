"""Closing the log of a run that was killed."""

from __future__ import annotations

import fcntl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairmark.errors import EvidenceError
from fairmark.evidence.closing import close_run
from fairmark.evidence.journal import Journal
from fairmark.evidence.live import LIVE, LiveStore, open_store
from fairmark.evidence.recorded import EVENTS
from fairmark.evidence.seal import measured_epoch_ns
from fairmark.evidence.store import OUTCOMES

__all__ = ["LOCK", "Recovered", "recover"]

LOCK: Final = "lock"
"""Inside the live store: locked by the coordinator and every worker for as long as they live."""

_PATIENCE_S: Final = 5.0

_BROKEN: Final = frozenset(OUTCOMES.index(name) for name in ("eof", "reset", "connect"))
_ABORTED: Final = OUTCOMES.index("aborted")
_DYING_NS: Final = 500_000_000
"""A server that is killed just before the coordinator breaks its connections just before the last beat."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found.

    Attributes:
        stop_reason: as it is in the record now.
        issued, completed: samples of all phases; completed ones are successes.
        aborted: samples that were in flight when the run was killed.
    """

    stop_reason: str
    issued: int
    completed: int
    aborted: int


def recover(folder: Path) -> Recovered:
    """Close the killed run in ``folder``: write its tables and its record, with all that was stamped.

    Queries in flight become failures of the kind ``aborted``. The run stays what it is, incomplete.

    Raises:
        EvidenceError: there is nothing to recover, the store is damaged, or the run is still going on.
    """
    live = folder / LIVE
    if not (live / "layout.json").exists():
        raise EvidenceError(
            f"{folder}: the run was killed before its first query; there is nothing to recover"
            if live.exists()
            else f"{folder}: has no unfinished run to recover"
        )
    with (live / LOCK).open("a") as lock:
        _take(lock.fileno(), folder)
        store = open_store(live)
        control = store.control()
        last = len(store.phases) - 1
        if not control.stop_reason and not all(worker.reason(last) for worker in control.workers):
            control.request_stop(2, "terminated")
        from_ns = control.alive_ns - _DYING_NS if control.alive_ns and store.dialect != EVENTS else None
        voided = 0 if from_ns is None else _void_what_broke(store, from_ns)
        Journal(folder / "evidence" / "journal.jsonl").append(
            "recovering",
            made_aborted=voided,
            made_aborted_after_ns=None if from_ns is None else from_ns - measured_epoch_ns(store, control),
        )
        detail = "the run was killed before it could close its log; recovered afterwards"
        closed = close_run(folder, detail=detail, after=None)
    sealed = closed.sealed
    return Recovered(
        stop_reason=closed.facts["outcome"]["stop_reason"],
        issued=sum(sealed.issued.values()),
        completed=sum(sealed.completed.values()),
        aborted=sealed.never_ended,
    )


def _void_what_broke(store: LiveStore, from_ns: int) -> int:
    """Connections that broke as the run was killed say nothing about the server, which may have been killed
    with it: such queries were aborted. Before the coordinator's last sign of life they count as they are.

    Returns:
        How many samples broke after ``from_ns`` (CLOCK_MONOTONIC) and are aborted now.
    """
    stamps, voided = store.columns(write=True).stamps, 0
    for seq, (outcome, completed) in enumerate(zip(stamps.outcome, stamps.completed, strict=True)):
        if outcome in _BROKEN and completed > from_ns:
            stamps.outcome[seq] = _ABORTED
            voided += 1
    return voided


def _take(descriptor: int, folder: Path) -> None:
    """Wait for the workers of a killed coordinator, which close as soon as they notice."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise EvidenceError(f"{folder}: the run is still going on") from None
            time.sleep(0.05)
        else:
            return
