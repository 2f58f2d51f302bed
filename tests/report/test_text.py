"""The text report and the summary: verdicts first, every gap with its reason, numbers from the record."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.report.numbers import bytes_of, decimal, duration_unit, in_unit
from fairmark.report.summary import labels, remarks, summary_rows
from fairmark.report.text import text_report

Record = dict[str, Any]


@pytest.fixture
def record(server_run: Path) -> Record:
    """A record that a test may change."""
    return copy.deepcopy(json.loads((server_run / "run.json").read_text()))


def cell(record: Record, name: str) -> tuple[str, str | None]:
    row = next(row for row in summary_rows([record]) if row.name == name)
    return row.cells[0].text, row.cells[0].reason


def test_verdicts_come_first_with_their_reasons(record: Record) -> None:
    record["verdict"].update(verdict="INVALID", reasons=["it was slow"], warnings=["it was short"])
    lines = text_report([record]).splitlines()
    assert lines[:3] == [
        "INVALID  Server  (sums-server, fairmark-open-1)",
        "         - it was slow",
        "         - warning: it was short",
    ]


def test_all_numbers_of_the_contract_are_there_and_are_the_records(record: Record) -> None:
    phase = record["metrics"]["performance"]
    phase["rates"].update(
        qps=12.345, output_tokens_per_s=1234.5, total_tokens_per_s=98765.4, mean_input_tokens=5.25
    )
    phase["latency"]["ttft_ns"]["from_schedule"].update(
        p50_ns=1_500_000, p90_ns=20_250_000, p99_ns=333_300_000
    )
    phase["latency"]["ttft_ns"]["from_send"].update(p50_ns=1)
    record["attempts"] = 3
    assert cell(record, "QPS") == ("12.35", None)
    assert cell(record, "Output") == ("1,234", None)
    assert cell(record, "Input + output") == ("98,765", None)
    assert cell(record, "Mean input") == ("5.250", None)
    assert cell(record, "TTFT p50") == ("1.500", None)
    assert cell(record, "TTFT p90") == ("20.25", None)
    assert cell(record, "TTFT p99") == ("333.3", None)
    assert cell(record, "Attempts") == ("3", None)
    assert cell(record, "Failed") == ("0", None)
    names = {row.name for row in summary_rows([record])}
    assert {"TPOT p50", "TPOT p90", "TPOT p99", "E2E p50", "E2E p90", "E2E p99", "Mean output"} < names


def test_numbers_that_do_not_exist_are_dashes_with_one_note_per_reason(record: Record) -> None:
    phase = record["metrics"]["performance"]
    phase["latency"]["tpot_ns"] = {"undefined": "no success has 2 tokens"}
    phase["rates"].update(qps=None)
    phase["rates"]["reasons"]["qps"] = "the window has no length"
    text = text_report([record])
    assert "TPOT p50 (" in text
    assert text.count("no success has 2 tokens") == 1
    assert "[1] the window has no length" in text
    assert cell(record, "QPS") == ("–", "the window has no length")
    assert cell(record, "TPOT p99") == ("–", "no success has 2 tokens")


def test_accuracy_is_shown_with_n_and_interval(record: Record) -> None:
    scored = {
        "scorer": "exact-match",
        "n": 64,
        "score": 0.921875,
        "target": 0.85,
        "interval": {"low": 0.83, "high": 0.97, "confidence": 0.95, "method": "wilson"},
    }
    record["metrics"]["performance"]["accuracy"] = scored
    assert cell(record, "Score") == ("0.9219", None)
    assert cell(record, "Target") == ("≥ 0.85", None)
    assert cell(record, "Interval") == ("0.830 to 0.970 (95 %)", None)
    assert cell(record, "Answers") == ("64 by exact-match", None)
    scored.update(interval={"undefined": "one sample has no spread"}, target=None)
    assert cell(record, "Interval") == ("–", "one sample has no spread")
    assert cell(record, "Target")[0] == "–"


def test_the_accuracy_phase_wins_over_the_performance_phase(record: Record) -> None:
    accuracy = copy.deepcopy(record["metrics"]["performance"])
    accuracy["accuracy"] = {"scorer": "exact-match", "n": 5, "score": 1.0, "target": None}
    accuracy["counts"]["failed"] = 2
    record["metrics"]["accuracy"] = accuracy
    assert cell(record, "Score") == ("1.0000", None)
    assert cell(record, "Failed") == ("0 + 2", None)


def test_a_run_without_performance_phase_says_so(record: Record) -> None:
    record["metrics"] = {"accuracy": record["metrics"]["performance"]}
    record["mode"] = "accuracy"
    assert cell(record, "QPS") == ("–", "a run in accuracy mode has no performance phase")
    assert text_report([record])


def test_an_unjudged_run(record: Record) -> None:
    del record["verdict"]
    del record["metrics"]
    assert text_report([record]).startswith("NOT JUDGED  Server")
    assert cell(record, "Failed") == ("–", "the run has not been measured")


def test_no_runs() -> None:
    assert text_report([]) == "no runs\n"


def test_small_n_is_remarked(record: Record) -> None:
    for metric, origin in (("ttft_ns", "from_schedule"), ("tpot_ns", "between_events")):
        described = record["metrics"]["performance"]["latency"][metric][origin]
        described["n"] = 64
        described["intervals"] = {
            name: {"low_ns": 1, "high_ns": 2, "confidence": 0.95, "n_eff": 64.0, "method": "x"}
            for name in ("p50", "p90", "p95", "p99", "p99_9")
        }
        described["intervals"]["p99"] = {"undefined": "too short"}
    e2e = record["metrics"]["performance"]["latency"]
    e2e["e2e_ns"] = {"undefined": "none"}
    assert remarks([record]) == ["Server (n = 64): no interval for TTFT p99, TPOT p99; at p99, too short"]


def test_labels_tell_runs_apart(record: Record) -> None:
    other = copy.deepcopy(record)
    assert labels([record]) == ["Server"]
    other["scenario"]["scenario"] = "Offline"
    assert labels([record, other]) == ["Server", "Offline"]
    other = copy.deepcopy(record)
    other["mode"] = "accuracy"
    assert labels([record, other]) == ["Server performance", "Server accuracy"]
    other = copy.deepcopy(record)
    other["plan"]["repetition"] = 1
    assert labels([record, other])[1] == "sums-server performance r1"
    other = copy.deepcopy(record)
    other["run_id"] = "another"
    assert labels([record, other]) == [record["run_id"], "another"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.000"),
        (0.0123, "0.012"),
        (1.5, "1.500"),
        (12.345, "12.35"),
        (123.45, "123.5"),
        (1234.5, "1,234"),
        (0.00001, "1.00e-05"),
    ],
)
def test_decimals(value: float, text: str) -> None:
    assert decimal(value) == text


@pytest.mark.parametrize(
    ("longest_ns", "unit"), [(10_000_000_000, "s"), (9_999_999_999, "ms"), (1_000_000, "ms"), (999_999, "µs")]
)
def test_units(longest_ns: int, unit: str) -> None:
    assert duration_unit(longest_ns)[0] == unit


def test_sizes() -> None:
    assert [bytes_of(n) for n in (0, 1023, 1024, 3 << 20)] == ["0 B", "1023 B", "1.0 KiB", "3.0 MiB"]


@given(st.integers(1, 10**15))
def test_a_printed_duration_is_within_half_a_percent(value_ns: int) -> None:
    _, unit_ns = duration_unit(value_ns)
    printed = float(in_unit(value_ns, unit_ns).replace(",", "")) * unit_ns
    assert abs(printed - value_ns) <= max(0.005 * value_ns, 0.0006 * unit_ns)
