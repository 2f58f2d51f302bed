"""The report as one self-contained page: no scripts, no links to load, every value escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any, Final

from fairmark.hooks import Section
from fairmark.report.by_length import COLUMNS, length_tables
from fairmark.report.charts import Chart, charts
from fairmark.report.profile import HEADERS, profile_table
from fairmark.report.provenance import provenance
from fairmark.report.run_data import RunData
from fairmark.report.series import series_in, spread_rows
from fairmark.report.summary import Cell, Row, labels, remarks, summary_rows, verdict_of

__all__ = ["html_report"]

_HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
"""

_HEADLINES: Final = ("QPS", "Output", "TTFT p99", "TPOT p99", "E2E p99", "Score")

_OUTCOMES: Final = {
    "pass": "✓ pass",
    "fail": "✕ fail",
    "insufficient": "… insufficient",
    "not_evaluable": "? not evaluable",
}


def html_report(runs: Sequence[RunData], sections: Sequence[Section] = ()) -> str:
    """The report of ``runs`` as a whole HTML document that loads nothing, with ``sections`` at its end.

    Numbers come from the records, points in the charts from the evidence; nothing else is read. The same
    runs give the same page, byte for byte.
    """
    records = [run.record for run in runs]
    names = labels(records)
    rows = summary_rows(records)
    benchmarks = ", ".join(dict.fromkeys(str(record["scenario"]["benchmark"]) for record in records))
    title = f"{benchmarks or 'no runs'} · fairmark"
    parts = [
        _HEAD,
        f"<title>{escape(title)}</title>\n<style>{_css()}</style>\n</head>\n<body>\n",
        _header(records, benchmarks),
        _cards(records, names, rows),
        *map(_series, series_in(records)),
        _summary(names, rows),
        _remarks(remarks(records)),
        *(_run_section(i, name, run) for i, (name, run) in enumerate(zip(names, runs, strict=True))),
        *map(_section, sections),
        _footer(records),
        "</body>\n</html>\n",
    ]
    return "".join(parts)


def _css() -> str:
    return resources.files("fairmark.report").joinpath("page.css").read_text(encoding="utf-8")


def _header(records: Sequence[Mapping[str, Any]], benchmarks: str) -> str:
    systems = ", ".join(dict.fromkeys(_system(record) for record in records))
    days = ", ".join(sorted({str(record["started_utc"])[:10] for record in records}))
    return (
        f"<header><h1>{escape(benchmarks or 'No runs')}</h1>"
        f'<p class="lede">{escape(systems)} · {escape(days)}</p></header>\n'
    )


def _system(record: Mapping[str, Any]) -> str:
    claims = record["sut"]["claims"]
    said = [str(claims[key]) for key in ("engine", "version", "model", "precision") if claims.get(key)]
    return " ".join(said) or str(record["sut"]["name"])


def _cards(records: Sequence[Mapping[str, Any]], names: Sequence[str], rows: Sequence[Row]) -> str:
    cards = "".join(_card(i, record, names[i], rows) for i, record in enumerate(records))
    return f'<main>\n<div class="cards">{cards}</div>\n'


def _card(position: int, record: Mapping[str, Any], name: str, rows: Sequence[Row]) -> str:
    verdict = verdict_of(record)
    ruleset = f" · {verdict.ruleset}" if verdict.ruleset else ""
    facts = "".join(
        f"<div><dt>{escape(row.name)}</dt><dd>{escape(row.cells[position].text)} "
        f"<small>{escape(row.unit)}</small></dd></div>"
        for row in rows
        if row.name in _HEADLINES and row.cells[position].reason is None
    )
    said = [*verdict.reasons, *(f"Warning: {warning}" for warning in verdict.warnings)]
    reasons = f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in said)}</ul>" if said else ""
    return (
        f'<section class="card {escape(verdict.word)}"><div class="badge">{escape(verdict.word)}</div>'
        f'<h3><a href="#run-{position}">{escape(name)}</a></h3>'
        f'<div class="what">{escape(record["scenario"]["name"])}{escape(ruleset)}</div>'
        f'<dl class="facts">{facts}</dl>{reasons}</section>'
    )


def _summary(names: Sequence[str], rows: Sequence[Row]) -> str:
    notes: dict[str, int] = {}
    head = "".join(f'<th class="n" scope="col">{escape(name)}</th>' for name in names)
    body: list[str] = []
    group = rows[0].group if rows else ""
    for row in rows:
        first = ' class="first"' if row.group != group else ""
        group = row.group
        cells = "".join(f'<td class="n">{_cell(cell, notes)}</td>' for cell in row.cells)
        body.append(
            f'<tr{first}><th scope="row">{escape(_row_name(row))}</th>'
            f'<td class="unit">{escape(row.unit)}</td>{cells}</tr>'
        )
    listed = "".join(f'<li id="note-{n}">{escape(reason)}</li>' for reason, n in notes.items())
    return (
        '<h2 class="inline">Results</h2><div class="scroll"><table><thead><tr><th></th><th></th>'
        f"{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        + (f'<ol class="notes">{listed}</ol>' if listed else "")
    )


def _row_name(row: Row) -> str:
    return f"{row.group} {row.name.lower()}" if row.group == "Accuracy" else row.name


def _cell(cell: Cell, notes: dict[str, int]) -> str:
    if cell.reason is None:
        return escape(cell.text)
    number = notes.setdefault(cell.reason, len(notes) + 1)
    return f'{escape(cell.text)}<sup><a href="#note-{number}">{number}</a></sup>'


def _series(series: Mapping[str, Any]) -> str:
    """The verdict on all repetitions together, and how far they lie apart."""
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in series["reasons"])
    body = "".join(
        f'<tr><th scope="row">{escape(row.name)}</th><td class="unit">{escape(row.unit)}</td>'
        + "".join(f'<td class="n">{escape(t)}</td>' for t in (row.least, row.mean, row.greatest, row.share))
        + "</tr>"
        for row in spread_rows(series)
    )
    head = "".join(
        f'<th class="n" scope="col">{text}</th>' for text in ("least", "mean", "greatest", "sd / mean")
    )
    return (
        f"<h2>{escape(series['verdict'])}: {series['repetitions']} repetitions together</h2>"
        + (f'<ul class="notes">{reasons}</ul>' if reasons else "")
        + f'<div class="scroll"><table><thead><tr><th></th><th></th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _remarks(found: Sequence[str]) -> str:
    return f'<ul class="notes">{"".join(f"<li>{escape(text)}</li>" for text in found)}</ul>' if found else ""


def _run_section(position: int, name: str, run: RunData) -> str:
    figures = "".join(_figure(chart) for chart in charts(run))
    return (
        f'<section id="run-{position}"><h2>{escape(name)} '
        f'<small class="what">{escape(run.record["scenario"]["name"])}</small></h2>'
        f'<div class="charts">{figures}</div>{_by_length(run.record)}{_rules(run.record)}{_operators(run)}'
        f"{_provenance(run)}</section>"
    )


def _figure(chart: Chart) -> str:
    legend = "".join(f'<span class="{css}"><i></i>{escape(text)}</span>' for css, text in chart.legend)
    body = chart.plot or f'<div class="absent">{escape(chart.caption)}</div>'
    caption = f"<figcaption>{escape(chart.caption)}</figcaption>" if chart.plot else ""
    heading = f'<h4>{escape(chart.title)}</h4><div class="legend">{legend}</div>'
    return f'<figure class="{chart.width}">{heading}{body}{caption}</figure>'


def _by_length(record: Mapping[str, Any]) -> str:
    parts: list[str] = []
    for table in length_tables(record):
        head = "".join(f'<th class="n" scope="col">{escape(title)}</th>' for title in COLUMNS)
        body = "".join(
            "<tr>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row) + "</tr>"
            for row in table.rows
        )
        remark = f'<p class="notes">{escape(table.remark)}</p>' if table.remark else ""
        parts.append(
            f"<h3>By {table.side} length</h3>"
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div>{remark}"
        )
    return "".join(parts)


def _rules(record: Mapping[str, Any]) -> str:
    verdict = record.get("verdict")
    if verdict is None:
        return ""
    order = list(_OUTCOMES)
    ranked = sorted(verdict["rules"], key=lambda r: (r["outcome"] == "pass", order.index(r["outcome"])))
    fixes = any(rule["outcome"] != "pass" for rule in ranked)
    rows = "".join(_rule(rule, fixes=fixes) for rule in ranked)
    skipped = ", ".join(verdict["not_applicable"])
    return (
        f"<h3>Rules of {escape(verdict['ruleset'])}</h3>"
        '<div class="scroll"><table class="rules"><thead><tr><th>Outcome</th><th>Rule</th><th>Expected</th>'
        f"<th>Found</th>{'<th>What to do</th>' if fixes else ''}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
        + (f'<p class="notes">Do not apply to this run: {escape(skipped)}.</p>' if skipped else "")
    )


def _rule(rule: Mapping[str, Any], *, fixes: bool) -> str:
    """One row; ``fixes``: whether the table has a column for what to do."""
    passed = rule["outcome"] == "pass"
    warning = " (warning)" if rule["severity"] == "warning" and not passed else ""
    message = rule["title"] if passed else rule["message"]
    found = "as expected" if passed and isinstance(rule["found"], (dict, list)) else _found(rule["found"])
    fix = f"<td>{'' if passed else escape(rule['fix'])}</td>" if fixes else ""
    return (
        f'<tr><td class="{escape(rule["outcome"])}">{escape(_OUTCOMES[rule["outcome"]])}{warning}</td>'
        f'<td>{escape(message)}<span class="id">{escape(rule["id"])}</span></td>'
        f'<td>{escape(rule["expected"])}</td><td class="found">{escape(found)}</td>{fix}</tr>'
    )


def _operators(run: RunData) -> str:
    """Where the time went, as the system's own profiler saw it."""
    if not run.operators:
        return ""
    head = "".join(f"<th{'' if i < 2 else ' class=n'}>{escape(text)}</th>" for i, text in enumerate(HEADERS))
    body = "".join(
        "<tr>"
        + "".join(f"<td{'' if i < 2 else ' class=n'}>{escape(text)}</td>" for i, text in enumerate(row))
        + "</tr>"
        for row in profile_table(run.operators)
    )
    return (
        "<h3>Operators, by their own time</h3>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _found(value: Any) -> str:
    """A value of the record in one line; long ones are cut, the record has them whole."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else f"{text[:119]}…"


def _provenance(run: RunData) -> str:
    groups = "".join(
        f'<h3>{escape(title)}</h3><dl class="pairs">{"".join(_pairs(pairs))}</dl>'
        for title, pairs in provenance(run)
    )
    return f"<details><summary>Where these numbers come from</summary>{groups}</details>"


def _section(section: Section) -> str:
    """A plugin's table; its words are text like any other."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in section.head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>" for row in section.rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<section><h2>{escape(section.title)}</h2><div class="scroll">{table}</div></section>\n'


def _pairs(pairs: Sequence[tuple[str, str]]) -> Iterator[str]:
    for key, value in pairs:
        yield f'<dt>{escape(key)}</dt><dd class="mono">{escape(value)}</dd>'


def _footer(records: Sequence[Mapping[str, Any]]) -> str:
    versions = ", ".join(sorted({str(record["fairmark"]["version"]) for record in records}))
    return (
        f"</main>\n<footer>Made by fairmark {escape(versions)} from the run records and their evidence. "
        "<code>fairmark audit</code> recomputes every number on this page.</footer>\n"
    )
