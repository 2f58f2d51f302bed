"""The windows that rates are taken over."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairmark.measure.arrow import present
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["steady_window", "window"]


def window(phase: Phase, terms: Terms) -> dict[str, Any]:
    """The whole window of the phase, first scheduled send to last completion, and LoadGen's end of it.

    ``judged_duration_ns`` is what LoadGen holds against the minimum duration (results.cc:287-305): the time
    of the last issue; in Server its scheduled time; in Offline the largest latency.
    """
    if not len(phase):
        return undefined("nothing was issued")
    start, end = phase.start_ns, int(phase.done.max())
    last = int(np.lexsort((phase.seq, phase.scheduled))[-1])
    last_scheduled, last_issue = int(phase.scheduled.max()), int(phase.issued.max())
    judged = {"Server": last_scheduled, "Offline": end}.get(terms.kind, last_issue) - start
    ended = present(phase.completed)[last]
    return group(
        {
            "start_ns": start,
            "first_issue_ns": int(phase.issued.min()),
            "last_scheduled_ns": last_scheduled,
            "last_issue_ns": last_issue,
            "last_issued_done_ns": int(phase.completed[last]) if ended else None,
            "end_ns": end,
            "duration_ns": end - start,
            "judged_duration_ns": judged,
            "min_duration_ns": terms.min_duration_ns,
        },
        {"last_issued_done_ns": "the query that was issued last never completed"},
    )


def steady_window(phase: Phase) -> tuple[int, int] | None:
    """From the first completion to the last issue: neither ramp nor drain. None where they do not overlap."""
    finished = phase.completed[phase.ok]
    if not len(finished):
        return None
    start, end = int(finished.min()), int(phase.issued.max())
    return (start, end) if end > start else None
