"""Was the plan delivered: every planned sample, once, in its place and at its time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairmark.measure.arrow import Flags, Int64s, int64s, present
from fairmark.measure.distribution import summary
from fairmark.measure.phase import Phase, of_phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["MIN_GAPS", "delivery", "distance_from", "share_of"]

MIN_GAPS: Final = 459
"""Below this many gaps a goodness-of-fit figure says nothing; only the lag is judged."""


def delivery(phase: Phase, terms: Terms, plan: pa.Table) -> dict[str, Any]:
    """Compare what was issued with the plan of the phase, by ``seq``.

    Server, Offline and accuracy runs issue the whole plan. The other scenarios end on time and count, each
    worker on its own: there a sample is missing if a later one of the same worker's share was issued.
    """
    planned = of_phase(plan, phase.name).sort_by("seq")
    seq = int64s(planned, "seq")
    issued, repeats = np.unique(phase.seq, return_counts=True)
    known = np.isin(issued, seq)
    row = np.searchsorted(seq, issued[known])
    first = np.searchsorted(phase.seq, issued[known])
    scheduled = int64s(planned, "scheduled_ns")[row]
    timed = present(scheduled)
    shifts = phase.scheduled[first][timed] - scheduled[timed]
    return {
        "planned": len(seq),
        "issued": len(phase),
        "missing": _missing(planned, issued, phase, terms),
        "duplicates": int((repeats - 1).sum()),
        "unplanned": int((~known).sum()),
        "wrong_sample": int((int64s(planned, "sample_index")[row] != phase.sample_index[first]).sum()),
        "wrong_time": _off_the_common(shifts),
        "issued_early": int((phase.issued < phase.scheduled).sum()),
        "issue_lag_ns": _issue_lag(phase, terms),
        "gaps": _gaps(phase, terms),
    }


def _off_the_common(shifts: Int64s) -> int:
    """How many are not shifted as most are: plans count from their phase, queries from the run's epoch."""
    return len(shifts) - int(np.unique(shifts, return_counts=True)[1].max(initial=0))


def _missing(planned: pa.Table, issued: Int64s, phase: Phase, terms: Terms) -> int:
    seq = int64s(planned, "seq")
    absent = ~np.isin(seq, issued)
    if phase.name == "accuracy" or terms.kind in ("Server", "Offline"):
        return int(absent.sum())
    share = share_of(planned, terms.workers, by_sample=False)
    return sum(_holes(absent[share == worker]) for worker in range(terms.workers))


def _holes(absent: Flags) -> int:
    """How many are absent before the last one that is there."""
    there = np.flatnonzero(~absent)
    return int(absent[: there[-1]].sum()) if len(there) else 0


def share_of(planned: pa.Table, workers: int, *, by_sample: bool) -> Int64s:
    """int64[samples]: the worker whose share of the phase each planned sample is.

    Query i of a phase belongs to worker i mod ``workers``; in Offline, which has one query, sample i does.

    Args:
        planned: the rows of one phase of the table ``plan``, sorted by ``seq``.
    """
    unit = int64s(planned, "seq" if by_sample else "query")
    return (unit - unit[:1]) % workers


def _issue_lag(phase: Phase, terms: Terms) -> dict[str, Any]:
    if not terms.open_loop:
        return undefined(f"not applicable: {terms.kind} has no schedule")
    return summary(phase.issued - phase.scheduled) if len(phase) else undefined("nothing was issued")


def _gaps(phase: Phase, terms: Terms) -> dict[str, Any]:
    if not terms.open_loop:
        return undefined(f"not applicable: {terms.kind} has no arrival process")
    if terms.process == "trace" or terms.target_qps is None:
        return undefined("a trace claims no process; its times are compared one by one")
    gaps = np.diff(np.sort(phase.issued)).astype(np.float64)
    if len(gaps) < MIN_GAPS:
        return undefined(f"not evaluable with fewer than {MIN_GAPS} gaps ({len(gaps)}); the lag is judged")
    planned = np.diff(phase.scheduled[np.argsort(phase.scheduled)]).astype(np.float64)
    claimed = partial(distance_from, process=terms.process, cv=terms.cv, mean_ns=1e9 / terms.target_qps)
    ks, ks_plan = claimed(gaps), claimed(planned)
    mean = math.fsum(gaps) / len(gaps)
    spread = math.sqrt(math.fsum((gaps - mean) ** 2) / len(gaps))
    return group(
        {
            "n": len(gaps),
            "process": terms.process,
            "cv": spread / mean if mean > 0 else None,
            "ks": ks,
            "ks_plan": ks_plan,
            "ks_excess": ks - ks_plan,
        },
        {"cv": "all queries were issued at one time"},
    )


def distance_from(gaps: npt.NDArray[np.float64], *, process: str, cv: float | None, mean_ns: float) -> float:
    """Kolmogorov-Smirnov distance of ``gaps`` (ns) from the claimed renewal process with that mean gap.

    ``constant`` is a step at the mean, so for it the distance is the larger share on either side of it that
    lies more than 1 ms away.
    """
    if process == "constant":
        return float(max((gaps < mean_ns - 1e6).mean(), (gaps > mean_ns + 1e6).mean()))
    from scipy.stats import gamma

    shape = 1.0 if cv is None else 1.0 / cv**2
    claimed = gamma.cdf(np.sort(gaps), shape, scale=mean_ns / shape)
    steps = np.arange(len(gaps) + 1) / len(gaps)
    return float(max((steps[1:] - claimed).max(), (claimed - steps[:-1]).max()))
