"""The summary of runs: one row per quantity, one column per run, every gap with its reason.

Both the text and the HTML report print these rows, so they cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairmark.report.numbers import DASH, count, decimal, duration_unit, in_unit, share

__all__ = ["Cell", "Row", "Verdict", "labels", "remarks", "summary_rows", "verdict_of"]

Record = Mapping[str, Any]

_LATENCIES: Final = (("TTFT", "ttft_ns"), ("TPOT", "tpot_ns"), ("E2E", "e2e_ns"))
_PERCENTILES: Final = ("p50", "p90", "p99")


@dataclass(frozen=True, slots=True)
class Cell:
    """One number as text, or a dash and the reason why there is none."""

    text: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity over all runs. ``group`` joins rows that belong together."""

    group: str
    name: str
    unit: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one run, with what led to it. ``word`` is ``NOT JUDGED`` before judging."""

    word: str
    ruleset: str | None
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]


def verdict_of(record: Record) -> Verdict:
    """The verdict that ``record`` holds."""
    verdict = record.get("verdict")
    if verdict is None:
        return Verdict("NOT JUDGED", None, ("no ruleset has been applied to this run",), ())
    return Verdict(
        verdict["verdict"], verdict["ruleset"], tuple(verdict["reasons"]), tuple(verdict["warnings"])
    )


def labels(records: Sequence[Record]) -> list[str]:
    """A short name for each run that no other run of ``records`` has."""
    ways: tuple[Callable[[Record], str], ...] = (
        lambda r: str(r["scenario"]["scenario"]),
        lambda r: f"{r['scenario']['scenario']} {r['mode']}",
        lambda r: f"{r['scenario']['name']} {r['mode']}",
        lambda r: f"{r['scenario']['name']} {r['mode']} r{r['plan']['repetition']}",
        lambda r: str(r["run_id"]),
    )
    for way in ways[:-1]:
        names = [way(record) for record in records]
        if max(Counter(names).values(), default=1) == 1:
            return names
    return [ways[-1](record) for record in records]


def summary_rows(records: Sequence[Record]) -> list[Row]:
    """All rows of the summary, in reading order."""
    rows = [
        _row("Run", "Verdict", "", records, lambda r: Cell(verdict_of(r).word)),
        _row("Run", "System", "", records, lambda r: Cell(str(r["sut"]["name"]))),
        _row("Run", "Offered", "", records, _offered),
        _row("Run", "Queries", "", records, _queries),
        _row("Run", "Failed", "", records, _failed),
        _row("Run", "Attempts", "", records, lambda r: Cell(count(r["attempts"]))),
        _rate("QPS", "1/s", "qps", records),
        _rate("Output", "tok/s", "output_tokens_per_s", records),
        _rate("Input + output", "tok/s", "total_tokens_per_s", records),
        _rate("Mean input", "tok", "mean_input_tokens", records),
        _rate("Mean output", "tok", "mean_output_tokens", records),
        *(row for title, metric in _LATENCIES for row in _latency_rows(title, metric, records)),
        _row("Accuracy", "Score", "", records, _score),
    ]
    if all(isinstance(_accuracy(record), str) for record in records):
        return rows
    return [
        *rows,
        _row("Accuracy", "Target", "", records, _target),
        _row("Accuracy", "Interval", "", records, _interval),
        _row("Accuracy", "Answers", "", records, _answers),
    ]


def remarks(records: Sequence[Record]) -> list[str]:
    """What to bear in mind: for each run, what the decoder remarked, and the percentiles that rest on too few
    queries for an interval.
    """
    found: list[str] = []
    for label, record in zip(labels(records), records, strict=True):
        phase = _performance(record)
        if isinstance(phase, str):
            continue
        flags = phase["counts"]["flags"]
        if flags:
            listed = ", ".join(f"{name} {n}" for name, n in flags.items())
            found.append(f"{label}: remarks of the decoder on successes: {listed}")
        thin, reason, n = _without_interval(phase)
        if thin:
            found.append(f"{label} (n = {n}): no interval for {', '.join(thin)}; {reason}")
    return found


def _without_interval(phase: Mapping[str, Any]) -> tuple[list[str], str, int]:
    """Which percentiles have no interval, why the last of them has none, and the queries behind it."""
    thin: list[str] = []
    reason, n = "", 0
    for title, metric in _LATENCIES:
        described = _distribution(phase["latency"][metric])
        missing = {
            p: described["intervals"][p]["undefined"]
            for p in _PERCENTILES
            if described is not None and "undefined" in described["intervals"][p]
        }
        if described is not None and missing:
            thin.append(f"{title} {' '.join(missing)}")
            last = list(missing)[-1]
            reason, n = f"at {last}, {missing[last]}", described["n"]
    return thin, reason, n


def _row(group: str, name: str, unit: str, records: Sequence[Record], cell: Callable[[Record], Cell]) -> Row:
    return Row(group, name, unit, tuple(cell(record) for record in records))


def _performance(record: Record) -> Mapping[str, Any] | str:
    """The metrics of the performance phase, or why there are none."""
    metrics = record.get("metrics")
    if metrics is None:
        return "the run has not been measured"
    phase: Mapping[str, Any] | None = metrics.get("performance")
    return f"a run in {record['mode']} mode has no performance phase" if phase is None else phase


def _queries(record: Record) -> Cell:
    phase = _performance(record)
    return Cell(DASH, phase) if isinstance(phase, str) else Cell(count(phase["counts"]["judged_queries"]))


def _offered(record: Record) -> Cell:
    """The load as the scenario asks for it; in closed loops how many queries are in flight at once."""
    scenario = record["scenario"]
    kind, settings = scenario["scenario"], scenario["settings"]
    if kind == "Server" and settings.get("target_qps") is not None:
        return Cell(f"{decimal(settings['target_qps'])}/s")
    if kind == "Server":
        return Cell("as recorded")
    in_flight = {"Concurrency": settings.get("concurrency"), "Offline": "all"}.get(kind, 1)
    return Cell(f"{in_flight} at once")


def _failed(record: Record) -> Cell:
    metrics = record.get("metrics")
    if not metrics:
        return Cell(DASH, "the run has not been measured")
    return Cell(" + ".join(count(phase["counts"]["failed"]) for phase in metrics.values()))


def _rate(name: str, unit: str, field: str, records: Sequence[Record]) -> Row:
    def cell(record: Record) -> Cell:
        phase = _performance(record)
        if isinstance(phase, str):
            return Cell(DASH, phase)
        value = phase["rates"][field]
        return Cell(DASH, phase["rates"]["reasons"][field]) if value is None else Cell(decimal(value))

    return _row("Throughput", name, unit, records, cell)


def _distribution(metric: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The headline distribution of a latency metric: from schedule where there are two origins."""
    found: Mapping[str, Any] | None = metric.get("from_schedule", metric.get("between_events"))
    return found


def _latency_rows(title: str, metric: str, records: Sequence[Record]) -> list[Row]:
    found: list[Mapping[str, Any] | str] = []
    for record in records:
        phase = _performance(record)
        if isinstance(phase, str):
            found.append(phase)
        else:
            value = phase["latency"][metric]
            found.append(_distribution(value) or str(value["undefined"]))
    longest = max((d["p99_ns"] for d in found if not isinstance(d, str)), default=0)
    unit, unit_ns = duration_unit(longest)
    return [
        Row(
            title,
            f"{title} {percentile}",
            unit,
            tuple(
                Cell(DASH, d) if isinstance(d, str) else Cell(in_unit(d[f"{percentile}_ns"], unit_ns))
                for d in found
            ),
        )
        for percentile in _PERCENTILES
    ]


def _accuracy(record: Record) -> Mapping[str, Any] | str:
    """The score of the accuracy phase if there is one, else of the performance phase, else why not."""
    metrics = record.get("metrics", {})
    phase = metrics.get("accuracy") or metrics.get("performance")
    if phase is None:
        return "the run has not been measured"
    accuracy: Mapping[str, Any] = phase["accuracy"]
    return str(accuracy["undefined"]) if "undefined" in accuracy else accuracy


def _scored(cell: Callable[[Mapping[str, Any]], Cell]) -> Callable[[Record], Cell]:
    def of_record(record: Record) -> Cell:
        accuracy = _accuracy(record)
        return Cell(DASH, accuracy) if isinstance(accuracy, str) else cell(accuracy)

    return of_record


def _reason(accuracy: Mapping[str, Any], field: str) -> str:
    return str(accuracy.get("reasons", {}).get(field, f"the scorer gives no {field}"))


@_scored
def _score(accuracy: Mapping[str, Any]) -> Cell:
    score = accuracy["score"]
    return Cell(DASH, _reason(accuracy, "score")) if score is None else Cell(f"{score:.4f}")


@_scored
def _target(accuracy: Mapping[str, Any]) -> Cell:
    target = accuracy.get("target")
    return Cell(DASH, "the scenario sets no target") if target is None else Cell(f"≥ {target:g}")


@_scored
def _interval(accuracy: Mapping[str, Any]) -> Cell:
    interval = accuracy.get("interval")
    if interval is None or "undefined" in interval:
        return Cell(DASH, interval["undefined"] if interval else _reason(accuracy, "interval"))
    return Cell(f"{interval['low']:.3f} to {interval['high']:.3f} ({share(interval['confidence'])})")


@_scored
def _answers(accuracy: Mapping[str, Any]) -> Cell:
    return Cell(f"{count(accuracy['n'])} by {accuracy['scorer']}")
