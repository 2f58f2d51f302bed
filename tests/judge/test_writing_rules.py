"""What docs/writing-rules.md and docs/rules.md say is so."""

from __future__ import annotations

import re
from pathlib import Path

from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.judge.vocabulary import COMPARISONS
from fairmark.judge.words import UNITS

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "writing-rules.md").read_text("utf-8")
P50, P99 = (f"/metrics/performance/latency/ttft_ns/from_schedule/p{p}_ns" for p in (50, 99))


def test_the_example_works_as_printed(tmp_path, record, put):
    head, rule = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / "ruleset.json").write_text(head)
    (tmp_path / "tail.json").write_text(rule)
    assert len((head + rule).splitlines()) <= 20
    ruleset = load_ruleset(tmp_path)
    assert "first-window" not in {r.id for r in ruleset.rules}
    assert judge(record, ruleset)["verdict"] == "VALID"
    put(record, P50, 10_000_000)
    put(record, P99, 40_000_001)
    verdict = judge(record, ruleset)
    assert verdict["reasons"] == ["the tail is long: p99 TTFT is 40 ms"]
    (tail,) = [r for r in verdict["rules"] if r["id"] == "tail"]
    assert tail["expected"] == "at most 4 x 10 ms"


def test_the_guide_names_every_unit_and_comparison():
    assert set(re.findall(r'^\| `"(\w+)"', GUIDE, re.MULTILINE)) == set(COMPARISONS)
    units = GUIDE[GUIDE.index("with a unit:") :].split("\n")[0]
    assert set(re.findall(r"`(\w+)`", units)) == set(UNITS)


def test_every_section_is_in_the_rules_text():
    sections = set(re.findall(r"^\| (\d+) ", (DOCS / "rules.md").read_text("utf-8"), re.MULTILINE))
    used = {rule.section.split(".")[0] for rule in load_ruleset("fairmark-closed-1").rules}
    assert used == sections


def test_the_marked_rules_are_those_of_the_closed_set():
    base, closed = load_ruleset("fairmark-open-1"), load_ruleset("fairmark-closed-1")
    stricter = {r.id for r in closed.rules} - {r.id for r in base.rules}
    severity = {rule.id: rule.severity for rule in base.rules}
    raised = {r.id for r in closed.rules if r.severity != severity.get(r.id, r.severity)}
    assert stricter == {
        "accuracy-demanded",
        "answers-hold-under-load",
        "dialect-core",
        "extra-known",
        "no-overrides",
        "samples-pinned",
        "seeds-official",
        "warm-up-disjoint",
    }
    assert raised == {
        "accuracy-tested",
        "client-ceiling",
        "client-cpu",
        "client-stalls",
        "early-stopping-adjusted",
        "accuracy-tokens-in-text",
        "performance-tokens-in-text",
        "steadiness-tested",
        "warm-up-steady",
    }
