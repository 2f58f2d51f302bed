"""How many queries were issued, and what became of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fairmark.measure.arrow import select, tally
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, ratio

__all__ = ["counts"]


def counts(phase: Phase, terms: Terms) -> dict[str, Any]:
    """Counts of the phase. A sample without completion and failure counts as failed, ``aborted``.

    The query floor counts samples in Offline and queries elsewhere (LoadGen results.cc:327-333).
    """
    issued, completed = len(phase), int(phase.ok.sum())
    queries = len(np.unique(phase.query))
    return group(
        {
            "queries": queries,
            "samples": issued,
            "issued": issued,
            "completed": completed,
            "failed": issued - completed,
            "by_failure": tally(select(phase.table, ~phase.ok), "failure", null="aborted"),
            "failure_rate": ratio(issued - completed, issued),
            "flags": _flags(phase),
            "out_of_order": int(phase.out_of_order().sum()),
            "judged_queries": issued if terms.kind == "Offline" else queries,
            "min_queries": terms.min_query_count,
        },
        {"failure_rate": "nothing was issued"},
    )


def _flags(phase: Phase) -> dict[str, int]:
    """How many successes carry each remark of the decoder."""
    found: Counter[str] = Counter()
    for flags, count in tally(select(phase.table, phase.ok), "flags").items():
        found.update(dict.fromkeys(flags.split(), count))
    return dict(sorted(found.items()))
