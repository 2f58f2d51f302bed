"""Was the plan delivered: every planned sample, once, in its place and at its time."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fairmark.measure.arrow import Int64s, int64s, present
from fairmark.measure.distribution import summary
from fairmark.measure.phase import Phase, of_phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["MIN_GAPS", "delivery", "distance_from"]

MIN_GAPS: Final = 459
"""Below this many gaps a goodness-of-fit figure says nothing; only the lag is judged."""


def delivery(phase: Phase, terms: Terms, plan: pa.Table) -> dict[str, Any]:
    """Compare what was issued with the plan of the phase, by ``seq``.

    Server, Offline and accuracy runs issue the whole plan. The other scenarios end on time and count, so
    only a hole before the last issued sample is missing; with several workers each works through its own
    share, so a hole is not one.
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
        "missing": _missing(seq, issued, phase, terms),
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


def _missing(seq: Int64s, issued: Int64s, phase: Phase, terms: Terms) -> int:
    absent = seq[~np.isin(seq, issued)]
    if phase.name == "accuracy" or terms.kind in ("Server", "Offline"):
        return len(absent)
    if terms.workers > 1 or not len(issued):
        return 0
    return int((absent < issued[-1]).sum())


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
