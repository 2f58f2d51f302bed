"""The tables by length: every number is the record's, and nothing is shown where lengths do not vary."""

from __future__ import annotations

from typing import Any

from fairmark.report.by_length import COLUMNS, length_tables

MS = 1_000_000


def bucket(start: int, **changes: Any) -> dict[str, Any]:
    latencies = {f"{name}_{p}_ns": 5 * MS for name in ("ttft", "tpot", "e2e") for p in ("p50", "p99")}
    rates = {"qps": 2.0, "output_tokens_per_s": 40.0}
    return {"from_tokens": start, "below_tokens": 2 * start, "n": 1200, **rates, **latencies, **changes}


def record(**by_length: Any) -> dict[str, Any]:
    none = {"undefined": "none"}
    return {
        "metrics": {"performance": {"by_length": {"input": none, "output": none, "like": none, **by_length}}}
    }


def test_one_row_for_each_bucket() -> None:
    (table,) = length_tables(record(input=[bucket(64), bucket(1024, ttft_p99_ns=None, qps=0.5)]))
    assert table.side == "input"
    assert table.rows == (
        ("64 to 127", "1,200", "2.000", "40.00", *["5.000"] * 6),
        ("1,024 to 2,047", "1,200", "0.500", "40.00", "5.000", "–", *["5.000"] * 4),
    )
    assert all(len(row) == len(COLUMNS) for row in table.rows)
    assert table.remark is None


def test_the_distance_to_a_recording_is_told() -> None:
    like = {
        "recording": "fairmark:azure-conv-2023",
        "input_ks": 0.25,
        "output_ks": None,
        "ks_5_percent": 0.0441,
    }
    both = [bucket(64), bucket(128)]
    first, second = length_tables(record(input=both, output=both, like=like))
    assert first.remark is not None
    assert "azure-conv-2023 by a Kolmogorov-Smirnov distance of 0.250" in first.remark
    assert second.remark is None


def test_lengths_that_do_not_vary_have_no_table() -> None:
    assert length_tables(record(input=[bucket(64)])) == []
    assert length_tables({}) == []
