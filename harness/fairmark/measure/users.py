"""Users are not requests: a closed loop's users wait for an answer, or think, or are done.

With W the time in the system and Z the time of thinking, the users that are there are λ·(W + Z): Little's law
over both places, known as the interactive response time law (Denning and Buzen, The Operational Analysis of
Queueing Network Models, Computing Surveys 10(3), 1978).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairmark.measure.arrow import total
from fairmark.measure.phase import Phase
from fairmark.measure.undefined import undefined

__all__ = ["users"]


def users(phase: Phase, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The users of a Concurrency run (``scenario`` is the resolved document), over the whole window.

    Sojourns and thinking are clipped to the window. A user whose next query was never issued, because the
    run had enough, has thought for one think time and is then away; so is one that the client holds up.
    """
    if scenario["scenario"] != "Concurrency":
        return undefined(
            "not applicable: only Concurrency has users, who wait for one answer before they ask on"
        )
    if not len(phase):
        return undefined("nothing was issued")
    window = int(phase.done.max()) - phase.start_ns
    if window <= 0:
        return undefined("the window has no length")
    configured = int(scenario["settings"]["concurrency"])
    think_ns = round(scenario["arrivals"]["think_time_s"] * 1e9)
    waiting = total(np.maximum(phase.done - phase.issued, 0))
    thinking = total(np.minimum(int(phase.done.max()) - phase.done, think_ns))
    there = (waiting + thinking) / window
    return {
        "configured": configured,
        "think_ns": think_ns,
        "arrival_qps": len(phase) / window * 1e9,
        "mean_sojourn_ns": waiting / len(phase),
        "mean_think_ns": thinking / len(phase),
        "mean_there": there,
        "away_share": 1 - there / configured,
    }
