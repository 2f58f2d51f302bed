"""Rows say what was reached, and what was not run is neither met nor missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import keep, main, table
from benchmarks.result import Goal, Result, against_limit, against_peer, not_run


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    # The machine was half as fast in the second round: the pairs do not see that, the medians would.
    row = against_peer(
        "rate", [80.0, 40.0, 90.0], [100.0, 50.0, 100.0], peer="wrk", goal=Goal("≥", 0.7), unit="/s"
    )
    assert (row.ours, row.theirs, row.runs) == (80.0, 100.0, 3)
    assert row.ratio == pytest.approx(0.8)
    assert (row.ours_range, row.theirs_range) == ((40.0, 90.0), (50.0, 100.0))
    assert (row.target, row.met) == ("≥ 0.7 × wrk", True)


@pytest.mark.parametrize(
    ("bound", "reached", "met"),
    [("≥", 1.0, True), ("≥", 0.99, False), ("≤", 1.0, True), ("≤", 1.01, False)],
)
def test_a_goal_includes_its_bound(bound: str, reached: float, met: bool) -> None:
    goal = Goal(bound, 1.0)  # type: ignore[arg-type]
    assert against_limit("row", [reached], goal=goal, unit="s").met is met


def test_sides_that_were_not_run_equally_often_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        against_peer("row", [1.0, 2.0], [1.0], peer="wrk", goal=Goal("≥", 1.0), unit="/s")


def test_what_was_not_run_is_not_judged() -> None:
    row = not_run("rate", peer="wrk", goal=Goal("≥", 0.7), unit="/s", note="wrk is not installed")
    assert (row.ours, row.theirs, row.ratio, row.met) == (None, None, None, None)
    text = table([row])
    assert "not run" in text
    assert "wrk is not installed" in text
    assert "MISSED" not in text


def rows() -> list[Result]:
    return [
        against_peer("a", [2.0], [1.0], peer="LoadGen", goal=Goal("≥", 3.0), unit="/s"),
        against_limit("b", [0.5], goal=Goal("≤", 1.0), unit="s"),
        not_run("c", goal=Goal("≤", 1.0), unit="s", note="no compiler"),
    ]


def test_results_are_kept_as_a_list_of_rows(tmp_path: Path) -> None:
    keep(rows(), tmp_path / "new" / "latest.json")
    kept = json.loads((tmp_path / "new" / "latest.json").read_text(encoding="utf-8"))
    assert [(row["name"], row["ratio"], row["met"]) for row in kept] == [
        ("a", 2.0, False),
        ("b", None, True),
        ("c", None, None),
    ]
    assert all({"ours", "theirs", "peer", "target"} <= set(row) for row in kept)


def test_the_plot_shows_every_row_with_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    keep(rows(), tmp_path / "latest.json")
    drawn = (tmp_path / "latest.svg").read_text(encoding="utf-8")
    assert ">a<" in drawn
    assert ">b<" in drawn
    assert ">c<" not in drawn


def test_an_unknown_benchmark_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["speed"])
    assert ended.value.code == 2
    assert "no benchmark 'speed'" in capsys.readouterr().err
