"""Were there enough queries: LoadGen's early stopping per scenario, and the same on effective sample sizes.

LoadGen treats queries as independent. Near saturation they are not, and its test then passes systems that
fail; so the record also holds the test with n and the count over the bound both divided by the variance
inflation factor. That helps and does not cure it: only fresh seeds do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from fairmark.measure.arrow import Flags, present
from fairmark.measure.constraint import at_percentile, judged
from fairmark.measure.dependence import variance_inflation
from fairmark.measure.latency import query_latency
from fairmark.measure.phase import Phase
from fairmark.measure.terms import Terms
from fairmark.measure.undefined import group, undefined

__all__ = ["queries_needed", "stopping", "tail_size"]

_BATCHES: Final = 20
_DOUBT: Final = 1 - 0.99
"""LoadGen's 1 - confidence, as a double a little above 0.01."""


def queries_needed(over: int, percentile: float) -> int:
    """Queries that show, at 99 % confidence, that with ``over`` of them over it the bound holds: h(t) + t.

    h is the smallest number of queries under the bound for which that few over it would have a probability
    below 1 % if the share over it were 1 - percentile (LoadGen early_stopping.cc:18-115).
    """
    from scipy.special import betainc

    low, high = 0, max(over, 1)
    while betainc(high, over + 1, percentile) >= _DOUBT:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if betainc(middle, over + 1, percentile) >= _DOUBT else (low, middle)
    return high + over


def tail_size(n: int, percentile: float) -> int:
    """The largest t with ``queries_needed(t) <= n``; 0 when n does not even allow t = 1."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if queries_needed(middle, percentile) <= n else (low, middle)
    return low


def stopping(phase: Phase, terms: Terms) -> dict[str, Any]:
    """Early stopping of the phase.

    SingleStream and MultiStream need one query over the percentile to spare and have no bound
    (results.cc:149-285); Server, and fairmark's Concurrency, are tested against each bound; Offline has none.
    """
    if terms.kind == "Offline":
        return undefined("not applicable: Offline has no early stopping (LoadGen results.cc:149-285)")
    if not len(phase):
        return undefined("nothing was issued")
    if terms.kind in ("SingleStream", "MultiStream"):
        found = {"latency": _without_bound(phase, terms)}
    else:
        found = {name: _against(phase, terms, name) for name in terms.limits.bounds_ns}
    if not found:
        return undefined("the scenario has no latency bound to test")
    checks = {name: check for name, (check, _) in found.items()}
    adjusted = {name: _adjusted(check, tail) for name, (check, tail) in found.items()}
    return _together(phase, checks, adjusted)


def _against(phase: Phase, terms: Terms, name: str) -> tuple[dict[str, Any], Flags]:
    """Server's test: with t queries over the bound, n must reach h(t) + t."""
    over = judged(phase, terms, name).over(terms.limits.bounds_ns[name])
    t, n = int(over.sum()), len(over)
    needed = queries_needed(t, terms.limits.percentile)
    check = {
        "percentile": terms.limits.percentile,
        "n": n,
        "over": t,
        "needed": needed,
        "more_needed": max(needed - n, 0),
        "estimate_ns": None,
        "discarded": None,
    }
    no_estimate = f"{terms.kind} tests a bound and estimates nothing"
    return group(check, {"estimate_ns": no_estimate, "discarded": no_estimate}), over


def _without_bound(phase: Phase, terms: Terms) -> tuple[dict[str, Any], Flags]:
    """The estimate sorted[n - t] with the largest t that n allows; failed queries are the highest."""
    p = terms.limits.percentile
    values, _, ok = query_latency(phase)
    n, needed, t = len(ok), queries_needed(1, p), tail_size(len(ok), p)
    ordered = np.sort(values[ok])
    estimate = int(ordered[n - t]) if t >= 1 and n - t < len(ordered) else None
    reason = f"needs {needed} queries, has {n}" if t < 1 else "infinite: too many queries failed"
    check = {
        "percentile": p,
        "n": n,
        "over": None,
        "needed": needed,
        "more_needed": max(needed - n, 0),
        "estimate_ns": estimate,
        "discarded": None if estimate is None else t - 1,
    }
    beyond = ~ok
    point = at_percentile(values[ok], int((~ok).sum()), p)
    if point is not None:
        beyond = beyond | (present(values) & (values >= point))
    why = {"over": f"{terms.kind} has no bound", "estimate_ns": reason, "discarded": reason}
    return group(check, why), beyond


def _adjusted(check: Mapping[str, Any], tail: Flags) -> dict[str, Any]:
    """The check with n and t divided by the variance inflation of the tail (rounded against the SUT).

    A constant indicator shows no dependence: its factor is 1.
    """
    n = len(tail)
    if n < 2 * _BATCHES:
        return undefined(f"needs {2 * _BATCHES} queries, has {n}")
    vif = variance_inflation(tail, _BATCHES)
    n_eff = n / vif
    over_eff = 1.0 if check["over"] is None else check["over"] / vif
    needed = queries_needed(math.ceil(over_eff), check["percentile"])
    return {
        "vif": vif,
        "n_eff": n_eff,
        "over_eff": over_eff,
        "needed": needed,
        "more_needed": max(math.ceil((needed - n_eff) * vif), 0),
    }


def _together(
    phase: Phase, checks: Mapping[str, Mapping[str, Any]], adjusted: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    more = max(check["more_needed"] for check in checks.values())
    seconds = (int(phase.done.max()) - phase.start_ns) / 1e9
    blocked = any("undefined" in check for check in adjusted.values())
    return group(
        {
            "checks": dict(checks),
            "adjusted": dict(adjusted),
            "needed": max(check["needed"] for check in checks.values()),
            "more_needed": more,
            "more_duration_s": more * seconds / len(phase) if seconds > 0 else None,
            "adjusted_more_needed": None
            if blocked
            else max(check["more_needed"] for check in adjusted.values()),
        },
        {
            "more_duration_s": "the window has no length",
            "adjusted_more_needed": "too few queries to estimate their dependence",
        },
    )
