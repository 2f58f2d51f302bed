"""LoadGen's logs as a record that rules can judge: ``schemas/mlperf-record.schema.json``.

A log holds results and no queries, so this is not a run record, and no rule over queries can pass on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from fairmark.mlperf.logs import Detail, Finding
from fairmark.mlperf.rounds import Entry, Round

__all__ = ["Division", "record"]

Division = Literal["closed", "network", "open"]

_PREFIXES: Final = ("effective_", "requested_", "result_", "early_stopping_")
_SINGLES: Final = ("loadgen_version", "sut_name", "qsl_reported_total_count", "num_errors")
_CONTRADICTIONS: Final = ("value-contradicts-log", "summary-contradicts-detail", "accuracy-sample-repeated")


def record(
    detail: Detail, findings: Iterable[Finding], limits: Round, entry: Entry, division: Division
) -> dict[str, Any]:
    """What a folder's logs say, beside the limits of the round.

    ``scenario`` is Interactive where the entry says so and the log says Server, which is how LoadGen runs it.
    """
    logged = detail.get("effective_scenario")
    scenario = "Interactive" if (logged, entry.scenario) == ("Server", "Interactive") else logged
    chosen = limits.limits(entry.benchmark, scenario)
    key = chosen.pop("metric", None)
    texts = [detail.get(f"early_stopping_{part}result") for part in ("", "ttft_", "tpot_")]
    return {
        "schema": "fairmark/mlperf-record/1",
        "round": limits.name,
        "division": division,
        "benchmark": entry.benchmark,
        "scenario": scenario,
        "entered_scenario": entry.scenario,
        "mode": detail.get("effective_test_mode"),
        "log": _values(detail),
        "early_stopping": "; ".join(" ".join(text.replace("*", "").split()) for text in texts if text),
        "counts": _counts(findings),
        "metric": {"key": key, "value": None if key is None else detail.get(key)},
        "accuracy": {"score": None, "reasons": {"score": "LoadGen's logs hold answers and no score"}},
        "limits": chosen,
        "limits_sha256": limits.sha256,
    }


def _values(detail: Detail) -> dict[str, Any]:
    """The first value of each key, as the submission checker reads a log."""
    return {
        entry.key: entry.value
        for entry in reversed(detail.entries)
        if entry.key.startswith(_PREFIXES) or entry.key in _SINGLES
    }


def _counts(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each kind; one that has no kind of its own is damage."""
    counts = {"unreadable": 0, "contradictions": 0, "errors_logged": 0, "warnings_logged": 0}
    for finding in findings:
        if finding.id == "loadgen-error-logged":
            counts["errors_logged"] += 1
        elif finding.id == "loadgen-warning-logged":
            counts["warnings_logged"] += 1
        elif finding.id in _CONTRADICTIONS:
            counts["contradictions"] += 1
        elif finding.severity == "error" and finding.id.startswith(("log-", "accuracy-")):
            counts["unreadable"] += 1
    return counts
