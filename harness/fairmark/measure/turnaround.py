"""Closed loops: how long the client took from the end of one query to the next."""

from __future__ import annotations

import numpy as np

from fairmark.measure.arrow import Int64s, present
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms

__all__ = ["turnaround"]


def turnaround(phase: Phase, terms: Terms) -> Int64s:
    """From the end of a query, and its think time, to the issue that it allowed, in ns.

    A worker with c slots issues c queries at once; from then on every issue takes the slot that has been
    free the longest, so its i-th issue follows its (i - c)-th completion. Queries that never ended free
    nothing. A query of several samples ends with the last of them.

    Raises:
        ValueError: the scenario has no slots.
    """
    if terms.slots is None:
        raise ValueError(f"{terms.kind} has no slots")
    found = [np.empty(0, np.int64)]
    for worker in range(terms.workers):
        issued, ended = _of_queries(phase, phase.worker == worker)
        slots = (terms.slots - worker + terms.workers - 1) // terms.workers
        after = issued[slots:]
        pairs = min(len(after), len(ended))
        found.append(after[:pairs] - ended[:pairs] - terms.think_ns)
    return np.concatenate(found)


def _of_queries(phase: Phase, mine: np.typing.NDArray[np.bool_]) -> tuple[Int64s, Int64s]:
    """When the queries of a worker were issued, and when those that ended did, each in order of time."""
    query = phase.query[mine]
    if not len(query):
        return query, query
    starts = np.flatnonzero(np.diff(query, prepend=query[0] - 1))
    ended = np.minimum.reduceat(present(phase.completed[mine]).astype(np.int64), starts) > 0
    last = np.maximum.reduceat(phase.completed[mine], starts)
    return np.sort(phase.issued[mine][starts]), np.sort(last[ended])
