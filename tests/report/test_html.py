"""The HTML report: well formed, self-contained, escaped, and drawn from the evidence."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fairmark.measure.phase import read_phase
from fairmark.report.charts import charts
from fairmark.report.html import html_report
from fairmark.report.run_data import RunData, load_run

_VOID = {"meta", "br", "hr", "img", "link", "input"}


class _Checker(HTMLParser):
    """Collects tags and attributes, and what is not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.broken: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)
        self.ids.extend(value or "" for name, value in attrs if name == "id")
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)


def parsed(page: str) -> _Checker:
    checker = _Checker()
    checker.feed(page)
    return checker


@pytest.fixture(scope="module")
def run(server_run: Path) -> RunData:
    return load_run(server_run)


@pytest.fixture(scope="module")
def page(run: RunData, offline_run: Path) -> str:
    return html_report([run, load_run(offline_run)])


def test_well_formed_with_unique_ids_and_links_that_lead_somewhere(page: str) -> None:
    checker = parsed(page)
    assert (checker.open, checker.broken) == ([], [])
    assert len(checker.ids) == len(set(checker.ids))
    targets = {value[1:] for name, value in checker.attributes if name == "href" and value}
    assert targets <= set(checker.ids)
    assert targets


def test_nothing_is_loaded(page: str) -> None:
    checker = parsed(page)
    assert {"script", "link", "img", "iframe", "object"}.isdisjoint(checker.tags)
    assert all((value or "").startswith("#") for name, value in checker.attributes if name in ("href", "src"))
    assert not re.search(r"url\(|@import|https?://", page)
    assert "default-src 'none'" in page


def test_every_plot_is_well_formed_xml_with_a_description(page: str) -> None:
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(plots) == 14
    for plot in plots:
        assert ElementTree.fromstring(plot).attrib["aria-label"]
        assert "nan" not in plot.lower().replace("finance", "")
        assert "inf" not in re.sub(r">[^<]*<|\"[^\"]*[A-Za-z ]{4}[^\"]*\"", "", plot)


def test_equal_runs_give_equal_pages(server_run: Path, run: RunData) -> None:
    assert html_report([run]) == html_report([load_run(server_run)])


def test_verdict_comes_before_numbers_and_rules_that_fail_come_first(run: RunData) -> None:
    record = copy.deepcopy(dict(run.record))
    record["verdict"].update(verdict="INVALID", reasons=["the very reason"])
    record["verdict"]["rules"][-1].update(outcome="fail", message="the last rule failed")
    page = html_report([RunData(record, run.evidence)])
    assert page.index("the very reason") < page.index("<table")
    assert page.index("the last rule failed") < page.index("✓ pass")


HOSTILE = "<script>alert(1)</script>\"'&"


def poisoned(value: Any) -> Any:
    """``value`` with hostile text appended to every string that is not decided by a schema."""
    if isinstance(value, dict):
        return {key: poisoned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [poisoned(item) for item in value]
    return value + HOSTILE if isinstance(value, str) else value


def test_everything_is_escaped(run: RunData) -> None:
    record = copy.deepcopy(dict(run.record))
    for key in ("sut", "run_id", "started_utc", "scenario", "outcome", "overrides", "fairmark"):
        record[key] = poisoned(record[key])
    record["evidence"] = {HOSTILE: next(iter(record["evidence"].values()))}
    for rule in record["verdict"]["rules"]:
        outcome = rule["outcome"]
        rule.update({**poisoned(rule), "outcome": outcome})
    record["verdict"].update(reasons=[HOSTILE], warnings=[HOSTILE], ruleset=HOSTILE, not_applicable=[HOSTILE])
    record["metrics"]["performance"]["latency"]["tpot_ns"] = {"undefined": HOSTILE}
    page = html_report([RunData(record, run.evidence)])
    assert "<script" not in page
    assert (parsed(page).open, parsed(page).broken) == ([], [])


def test_the_curve_ends_where_the_failures_begin(make_run: Callable[..., Path]) -> None:
    failing = load_run(make_run("Server", queries=40, faults=("truncate@every=4",)))
    phase = read_phase(failing.evidence.queries, "performance")
    failed = int((~phase.ok).sum())
    assert failed
    e2e = next(chart for chart in charts(failing) if chart.title == "End-to-end latency")
    assert f"{failed} failed and count as slower than any bound" in e2e.caption
    line = re.search(r'class="line one" d="([^"]*)"', e2e.plot)
    assert line
    top = min(float(y) for y in re.findall(r"V([\d.]+)", line[1]))
    # The plot area is 16 to 194: a share s of successes ends at 194 - 178 s.
    assert top == pytest.approx(194 - 178 * (1 - failed / len(phase)), abs=0.06)
    over_time = next(chart for chart in charts(failing) if chart.title == "Latency against time")
    assert over_time.plot.count("l6 6m0 -6l-6 6") >= failed


def test_charts_that_cannot_be_drawn_say_why(make_run: Callable[..., Path]) -> None:
    unstreamed = load_run(make_run("SingleStream", queries=20, stream=False))
    by_title = {chart.title: chart for chart in charts(unstreamed)}
    first = by_title["Time to first token"]
    assert first.plot == ""
    assert first.caption == unstreamed.record["metrics"]["performance"]["latency"]["ttft_ns"]["undefined"]
    assert by_title["First token against input length"].plot == ""
    assert by_title["End-to-end latency"].plot
    assert first.caption in html_report([unstreamed])


def test_levels_are_those_of_the_record(run: RunData) -> None:
    by_title = {chart.title: chart for chart in charts(run)}
    assert "bound 60 ms" in by_title["Time to first token"].plot
    assert "bound 8 ms" in by_title["Time per output token"].plot
    assert "limit for p99: 1 ms" in by_title["The harness&#x27;s own lag".replace("&#x27;", "'")].plot
    little = run.record["metrics"]["performance"]["concurrency"]["mean_in_flight"]
    assert f"L = {little:.3f}" in by_title["Samples in flight"].plot
    assert "warm-up, not counted" in by_title["Latency against time"].plot


def test_runs_without_a_counted_phase_have_no_charts(run: RunData) -> None:
    record = {key: value for key, value in run.record.items() if key not in ("metrics", "verdict")}
    assert charts(RunData(record, run.evidence)) == []
    assert "NOT JUDGED" in html_report([RunData(record, run.evidence)])


def test_no_runs() -> None:
    assert (parsed(html_report([])).open, parsed(html_report([])).broken) == ([], [])
