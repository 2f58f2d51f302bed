"""Why a run ended, from its control page: the same words for one that ended well and one that was killed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairmark.evidence.control import STOP_REASONS, Control
from fairmark.evidence.live import LiveStore
from fairmark.evidence.seal import Sealed, measured_epoch_ns

__all__ = ["ENDS_OF_WARMUP", "outcome"]

ENDS_OF_WARMUP: Final = frozenset({"complete", "steady", "max_queries", "max_duration"})
"""Reasons for which a warm-up may end and the run go on."""


def outcome(store: LiveStore, sealed: Sealed, detail: str | None) -> dict[str, Any]:
    """The part ``outcome`` of the run record: stop reason, detail, and every phase that began.

    What the coordinator asked for comes first, then the gravest reason of any worker.
    """
    control = store.control()
    epoch_ns = measured_epoch_ns(store, control)
    reasons = {n: _phase_reason(control, n) for n in range(len(store.phases)) if control.epoch_ns(n)}
    phases = [
        {
            "phase": store.phases[n].name,
            "issued": sealed.issued[store.phases[n].name],
            "completed": sealed.completed[store.phases[n].name],
            "started_ns": control.epoch_ns(n) - epoch_ns,
            "ended_ns": max(w.ended_ns(n) for w in control.workers) - epoch_ns if reason else None,
            "stop_reason": reason or "worker_died",
        }
        for n, reason in reasons.items()
    ]
    return {"stop_reason": _stop_reason(store, control, reasons), "detail": detail, "phases": phases}


def _phase_reason(control: Control, phase: int) -> str:
    """The gravest of the workers' reasons; empty if one of them never finished the phase."""
    reasons = [w.reason(phase) for w in control.workers]
    return max(reasons, key=STOP_REASONS.index) if all(reasons) else ""


def _stop_reason(store: LiveStore, control: Control, reasons: Mapping[int, str]) -> str:
    if control.stop_reason:
        return control.stop_reason
    unfinished = [n for n in range(len(store.phases)) if not reasons.get(n)]
    # A worker that cannot reach the server says so for a phase that never began.
    early = [w.reason(n) for n in unfinished for w in control.workers if w.reason(n)]
    grave = [
        reason
        for n, reason in reasons.items()
        if reason and not (store.phases[n].name == "warmup" and reason in ENDS_OF_WARMUP)
    ]
    worst = max([*early, *grave, "complete"], key=STOP_REASONS.index)
    return "worker_died" if unfinished and worst == "complete" else worst
