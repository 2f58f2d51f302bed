"""Operators out of traces: own time by hand, and what must hold for any nest of calls."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import EvidenceError
from fairmark.report.profile import Operator, operators, profile_table, read_profile


def call(name: str, ts: float, dur: float, *, tid: int = 1, cat: str = "cpu_op") -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": tid, "ts": ts, "dur": dur}


BY_HAND = [
    {"ph": "M", "name": "process_name", "pid": 7},
    call("generate", 0, 200, cat="user_annotation"),
    # linear 0..100 calls mm 10..60, which calls fill 20..30, and add 60..100, which begins as mm ends.
    call("linear", 0, 100),
    call("mm", 10, 50),
    call("fill", 20, 10),
    call("add", 60, 40),
    # The same operator on another thread, and one on the device at the same time.
    call("mm", 15, 5, tid=2),
    call("gemm", 12, 300, cat="kernel"),
]


def test_own_time_is_what_the_called_operators_leave() -> None:
    assert operators([BY_HAND]) == [
        Operator("gemm", "device", 1, 300, 300),
        Operator("mm", "host", 2, 45, 55),
        Operator("add", "host", 1, 40, 40),
        Operator("fill", "host", 1, 10, 10),
        Operator("linear", "host", 1, 10, 100),
    ]


def test_the_share_is_that_of_host_or_device() -> None:
    table = profile_table(operators([BY_HAND]), limit=2)
    assert table == [
        ["gemm", "device", "1", "0.3", "100.0%", "0.3"],
        ["mm", "host", "2", "0.0", "42.9%", "0.1"],
    ]


@st.composite
def nests(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int]:
    """Calls of one thread, and how long the outermost of them take together."""
    events: list[dict[str, Any]] = []

    def block(start: int, end: int, depth: int) -> None:
        events.append(call(draw(st.sampled_from("abc")), start, end - start))
        at = start
        while depth and at < end and draw(st.booleans()):
            inner = draw(st.integers(at, end))
            until = draw(st.integers(inner, end))
            if (inner, until) != (start, end):
                block(inner, until, depth - 1)
            at = until

    outermost, at = 0, 0
    for length in draw(st.lists(st.integers(1, 50), max_size=4)):
        block(at, at + length, 3)
        at, outermost = at + length, outermost + length
    return draw(st.permutations(events)), outermost


@given(nests())
def test_own_times_add_up_to_the_outermost_calls(found: tuple[list[dict[str, Any]], int]) -> None:
    events, outermost = found
    made = operators([events])
    assert sum(op.self_us for op in made) == outermost
    assert sum(op.calls for op in made) == len(events)
    assert all(0 <= op.self_us <= op.total_us for op in made)


def test_all_traces_of_a_run_are_read(tmp_path: Path) -> None:
    assert read_profile(tmp_path) == []
    (tmp_path / "profile" / "rank-0").mkdir(parents=True)
    (tmp_path / "profile" / "a.json").write_text(json.dumps({"traceEvents": [call("mm", 0, 3)]}))
    packed = gzip.compress(json.dumps([call("mm", 0, 4)]).encode())
    (tmp_path / "profile" / "rank-0" / "b.json.gz").write_bytes(packed)
    (tmp_path / "profile" / "notes.txt").write_text("not a trace")
    assert read_profile(tmp_path) == [Operator("mm", "host", 2, 7, 7)]


@pytest.mark.parametrize("content", [b"", b"{}", b"7", b'{"traceEvents": [{"ph": "X"'])
def test_a_damaged_trace_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "torch.json").write_bytes(content)
    with pytest.raises(EvidenceError, match=r"torch\.json: is not a trace in the Chrome format"):
        read_profile(tmp_path)
