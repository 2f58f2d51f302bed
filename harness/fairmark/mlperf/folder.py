"""A LoadGen result folder: what it says, whether that holds together, and what we say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.mlperf.logs import Detail, Finding, Severity, read_accuracy, read_detail, read_summary
from fairmark.mlperf.recompute import checks
from fairmark.mlperf.record import Division, record
from fairmark.mlperf.rounds import Entry, Round, round_of
from fairmark.mlperf.summary import contradictions

__all__ = ["judge_folder", "read_folder"]

_DETAIL: Final = "mlperf_log_detail.txt"
_SUMMARY: Final = "mlperf_log_summary.txt"
_ACCURACY: Final = "mlperf_log_accuracy.json"

_CONDITIONS: Final = {
    "result_perf_constraints_met": ("loadgen-performance-constraint", "the latency bound was not met"),
    "result_min_duration_met": ("loadgen-min-duration", "the run was shorter than its minimum duration"),
    "result_min_queries_met": ("loadgen-min-queries", "fewer queries or samples than the minimum"),
    "early_stopping_met": (
        "loadgen-early-stopping",
        "too few queries for what they show, at 99 % confidence",
    ),
}


class _Findings:
    def __init__(self) -> None:
        self.all: list[Finding] = []

    def note(self, name: str, severity: Severity, message: str, where: str) -> None:
        self.all.append(Finding(name, severity, message, where))

    @property
    def errors(self) -> bool:
        return any(finding.severity == "error" for finding in self.all)


def read_folder(folder: Path) -> dict[str, Any]:
    """Read a folder with LoadGen logs and judge what is in it.

    Returns:
        ``loadgen_verdict``: what LoadGen printed, null when it printed none (an accuracy run, a cut log).
        ``verdict``: ours. INVALID with any error among the findings, INSUFFICIENT when a performance log has
        no result, else VALID.
        ``findings``: a list of ``{id, severity, message, where}``.
        ``metrics``: printed ``results`` by LoadGen's names, and which values were ``recomputed`` with what
        outcome.

    Raises:
        InputError: there is no detail log.
    """
    return _read(folder)[0]


def judge_folder(
    folder: Path, ruleset: str, *, benchmark: str | None = None, division: Division = "closed"
) -> dict[str, Any]:
    """`read_folder`, judged by the ruleset of a round.

    Args:
        folder: with LoadGen's logs.
        ruleset: ``mlperf-inference-6.1``, another round's, or a folder that extends one.
        benchmark: None: recognised from the names of the folders, if they tell.
        division: which limits may be chosen freely.

    Returns:
        As `read_folder`, with the ``record`` that was judged, the ``judgement``, and its ``verdict``.

    Raises:
        InputError: there is no detail log, no such ruleset, or no such benchmark in the round.
    """
    rules = load_ruleset(ruleset)
    limits = round_of(rules)
    entry = _entry(folder, limits, benchmark)
    result, detail, found = _read(folder)
    judged = record(detail, found.all, limits, entry, division)
    judgement = judge(judged, rules)
    return result | {"verdict": judgement["verdict"], "record": judged, "judgement": judgement}


def _entry(folder: Path, limits: Round, benchmark: str | None) -> Entry:
    recognised = limits.recognise(folder)
    if benchmark is None:
        return recognised
    named = limits.entry(benchmark)
    if named is None:
        known = ", ".join(sorted(limits.tables["benchmarks"]))
        raise InputError("is not in the round", source="--benchmark", value=benchmark, accepted=known)
    return Entry(named.benchmark, named.scenario or recognised.scenario)


def _read(folder: Path) -> tuple[dict[str, Any], Detail, _Findings]:
    if not (folder / _DETAIL).is_file():
        raise InputError(f"has no {_DETAIL}", source=folder, accepted="a folder with LoadGen's logs")
    found = _Findings()
    detail = read_detail(folder / _DETAIL, found.note)
    _conditions(detail, found)
    _errors(detail, found)
    recomputed = _recompute(detail, found)
    if (folder / _SUMMARY).is_file():
        for message in contradictions(read_summary(folder / _SUMMARY, found.note), detail):
            found.note("summary-contradicts-detail", "error", message, _SUMMARY)
    else:
        found.note("summary-missing", "warning", "there is no summary to compare with", _SUMMARY)
    answers = _accuracy(folder, detail, found)
    printed = detail.get("result_validity")
    result = {
        "loadgen_verdict": printed,
        "verdict": _verdict(detail, printed, found),
        "findings": [asdict(finding) for finding in found.all],
        "metrics": {
            "loadgen_version": detail.get("loadgen_version"),
            "scenario": detail.get("effective_scenario"),
            "mode": detail.get("effective_test_mode"),
            "results": detail.results(),
            "recomputed": recomputed,
            "accuracy_entries": answers,
        },
    }
    return result, detail, found


def _verdict(detail: Detail, printed: Any, found: _Findings) -> str:
    if printed is None and detail.get("effective_test_mode") != "AccuracyOnly":
        return "INVALID" if found.errors else "INSUFFICIENT"
    return "INVALID" if found.errors else "VALID"


def _conditions(detail: Detail, found: _Findings) -> None:
    """Each of LoadGen's four conditions that failed, with the numbers behind it."""
    for key, (name, meaning) in _CONDITIONS.items():
        if detail.get(key) is False:
            numbers = _numbers(key, detail)
            found.note(name, "error", meaning + (f": {numbers}" if numbers else ""), detail.where(key))
    if detail.get("result_validity") is None and detail.get("effective_test_mode") != "AccuracyOnly":
        found.note("loadgen-result-missing", "warning", "the log ends without a result", detail.name)


def _numbers(key: str, detail: Detail) -> str:
    """What a failed condition compares, in LoadGen's own numbers."""
    if key == "result_perf_constraints_met":
        return _latencies(detail)
    if key == "early_stopping_met":
        texts = [detail.get(f"early_stopping_{part}result") for part in ("", "ttft_", "tpot_")]
        return "; ".join(" ".join(text.replace("*", "").split()) for text in texts if text)
    if key == "result_min_duration_met":
        return f"minimum {detail.get('effective_min_duration_ms')} ms"
    return f"{detail.get('result_query_count')} queries, minimum {detail.get('effective_min_query_count')}"


def _latencies(detail: Detail) -> str:
    if detail.get("requested_use_token_latencies"):
        pairs = [
            ("TTFT", "result_first_token_99.00_percentile_latency_ns", "requested_server_ttft_latency"),
            ("TPOT", "result_time_per_output_token_99.00_percentile_ns", "requested_server_tpot_latency"),
        ]
    else:
        pairs = [("latency", "result_99.00_percentile_latency_ns", "effective_target_latency_ns")]
    return ", ".join(
        f"p99 {name} {detail.get(value) / 1e6:.3f} ms, bound {detail.get(bound) / 1e6:.3f} ms"
        for name, value, bound in pairs
        if isinstance(detail.get(value), int) and isinstance(detail.get(bound), int)
    )


def _errors(detail: Detail, found: _Findings) -> None:
    """Errors LoadGen logged: its verdict ignores them, ours does not."""
    for entry in detail.entries:
        where = f"{detail.name}:{entry.line}"
        if entry.is_error:
            found.note("loadgen-error-logged", "error", f"LoadGen logged an error: {entry.value}", where)
        elif entry.is_warning:
            found.note("loadgen-warning-logged", "warning", f"LoadGen logged a warning: {entry.value}", where)


def _recompute(detail: Detail, found: _Findings) -> dict[str, bool]:
    results: dict[str, bool] = {}
    for check in checks(detail):
        results[check.key] = check.holds
        if not check.holds:
            found.note(
                "value-contradicts-log",
                "error",
                f"{check.key} is {check.printed}; the rest of the log gives {check.computed}",
                detail.where(check.key),
            )
    return results


def _accuracy(folder: Path, detail: Detail, found: _Findings) -> int | None:
    """How many answers the accuracy log has; an accuracy run answers every sample once.

    MultiStream's padding sends the first samples of a set again.
    """
    path = folder / _ACCURACY
    if not path.is_file():
        return None
    answers = read_accuracy(path, found.note)
    indices = [answer["qsl_idx"] for answer in answers]
    repeated = len(indices) - len(set(indices))
    one_pass = detail.get("effective_test_mode") == "AccuracyOnly"
    if repeated and one_pass and detail.get("effective_scenario") != "MultiStream":
        message = f"{repeated} samples are answered more than once"
        found.note("accuracy-sample-repeated", "error", message, path.name)
    return len(answers)
