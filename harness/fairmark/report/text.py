"""The report in a terminal: verdicts first, then one table, then what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairmark.report.by_length import COLUMNS, LengthTable, length_tables
from fairmark.report.series import series_in, series_line, spread_rows
from fairmark.report.summary import Row, labels, remarks, summary_rows, verdict_of

__all__ = ["text_report"]


def text_report(records: Sequence[Mapping[str, Any]]) -> str:
    """The report of ``records`` (run records) as plain text, ending in a line feed.

    First the verdict of each run with its reasons, that on repetitions together before those on each; then
    one table with a column for each run; then the spread over repetitions, tables by length, the reason for
    every number that does not exist, and remarks on percentiles that rest on few queries.
    """
    if not records:
        return "no runs\n"
    names = labels(records)
    notes: dict[str, int] = {}
    series = series_in(records)
    parts = [
        *map(series_line, series),
        _verdicts(names, records),
        _table(names, summary_rows(records), notes),
        *map(_spread, series),
        *(
            _by_length(name, table)
            for name, r in zip(names, records, strict=True)
            for table in length_tables(r)
        ),
    ]
    if notes:
        parts.append("\n".join(f"[{number}] {reason}" for reason, number in notes.items()))
    thin = remarks(records)
    if thin:
        parts.append("\n".join(thin))
    return "\n\n".join(parts) + "\n"


def _verdicts(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str:
    verdicts = [verdict_of(record) for record in records]
    words = max(len(verdict.word) for verdict in verdicts)
    lines: list[str] = []
    for name, record, verdict in zip(names, records, verdicts, strict=True):
        ruleset = f", {verdict.ruleset}" if verdict.ruleset else ""
        lines.append(f"{verdict.word:<{words}}  {name}  ({record['scenario']['name']}{ruleset})")
        lines.extend(f"{'':<{words}}  - {reason}" for reason in verdict.reasons)
        lines.extend(f"{'':<{words}}  - warning: {warning}" for warning in verdict.warnings)
    return "\n".join(lines)


def _table(names: Sequence[str], rows: Sequence[Row], notes: dict[str, int]) -> str:
    from tabulate import tabulate

    body = [[_title(row), *(_cell(cell.text, cell.reason, notes) for cell in row.cells)] for row in rows]
    align = ["left", *("right" for _ in names)]
    return tabulate(body, headers=["", *names], tablefmt="simple", disable_numparse=True, colalign=align)


def _by_length(name: str, table: LengthTable) -> str:
    from tabulate import tabulate

    title, *others = COLUMNS
    headers = [f"{name}, {table.side} {title}", *others]
    align = ["right" for _ in headers]
    body = tabulate(table.rows, headers=headers, tablefmt="simple", disable_numparse=True, colalign=align)
    return body if table.remark is None else f"{body}\n{table.remark}"


def _spread(series: Mapping[str, Any]) -> str:
    from tabulate import tabulate

    headers = ["over repetitions", "least", "mean", "greatest", "sd / mean"]
    body = [
        [f"{row.name} ({row.unit})" if row.unit else row.name, row.least, row.mean, row.greatest, row.share]
        for row in spread_rows(series)
    ]
    align = ["left", *("right" for _ in headers[1:])]
    return tabulate(body, headers=headers, tablefmt="simple", disable_numparse=True, colalign=align)


def _title(row: Row) -> str:
    name = f"{row.group} {row.name.lower()}" if row.group == "Accuracy" else row.name
    return f"{name} ({row.unit})" if row.unit else name


def _cell(text: str, reason: str | None, notes: dict[str, int]) -> str:
    if reason is None:
        return text
    return f"{text} [{notes.setdefault(reason, len(notes) + 1)}]"
