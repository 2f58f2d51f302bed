"""Completions by array and by list end what they would end one by one, and report the same breaches."""

from __future__ import annotations

import dis
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark import Chunk, Done, QueryBlock, Sample, Usage
from fairmark.drive.inprocess.sink import EventSink
from fairmark.drive.inprocess.states import BEGUN, ENDED, GIVEN_UP, ISSUED, PLANNED
from fairmark.drive.inprocess.tight import calm
from fairmark.drive.policy import Limits
from fairmark.evidence.recorded import (
    ENDING,
    ENDINGS,
    ENDS,
    VIOLATION,
    VIOLATIONS,
    decode_ending,
    decode_endings,
)
from fairmark.evidence.store import Stamps
from fairmark.scenario.model import Generation

SAMPLES = 24
STATES = (PLANNED, ISSUED, BEGUN, ENDED, GIVEN_UP)


class Records:
    """A log in memory."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, int, bytes]] = []

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        self.kept.append((kind, seq, data))

    @property
    def breaches(self) -> Counter[tuple[str, int]]:
        return Counter((VIOLATIONS[d[0]], seq) for kind, seq, d in self.kept if kind == VIOLATION)

    @property
    def counts(self) -> dict[int, tuple[int | None, int | None]]:
        found = {seq: tuple(decode_ending(d)[:2]) for kind, seq, d in self.kept if kind == ENDING}
        for kind, first, data in self.kept:
            for n, pair in enumerate(decode_endings(data).T.tolist() if kind == ENDINGS else ()):
                found[first + n] = tuple(None if c < 0 else c for c in pair)
        return found


def sink_in(states: list[int]) -> tuple[EventSink, Records]:
    records = Records()
    cells = (memoryview(bytearray(8 * SAMPLES)).cast("q") for _ in Stamps._fields)
    sink = EventSink(Stamps(*cells), records, SAMPLES, pytest.fail)
    for seq, state in enumerate(states):
        if state != PLANNED:
            sink.issue(seq, 1)
        if state == BEGUN:
            sink.chunk(seq, Chunk("a", n_tokens=1))
        elif state == ENDED:
            sink.done(seq, Done())
        elif state == GIVEN_UP:
            sink.give_up(seq, 2, "timeout")
    records.kept.clear()
    return sink, records


def ends(sink: EventSink) -> list[str]:
    return [ENDS[number] for number in sink.stamps.outcome.tolist()]


@given(
    st.lists(st.sampled_from(STATES), min_size=SAMPLES, max_size=SAMPLES),
    st.lists(st.integers(-3, SAMPLES + 3), max_size=40),
    st.booleans(),
)
def test_an_array_ends_what_its_members_would_one_by_one(
    states: list[int], seqs: list[int], counted: bool
) -> None:
    many, by_array = sink_in(states)
    single, by_one = sink_in(states)
    outputs = [abs(seq) + 1 for seq in seqs] if counted else None
    many.done_many(np.array(seqs, dtype=np.int64), outputs)
    for seq in seqs:
        single.done(seq, Done("stop", Usage(None, abs(seq) + 1) if counted else None))
    assert many.state == single.state
    assert ends(many) == ends(single)
    assert by_array.breaches == by_one.breaches
    assert many.stamps.status.tolist() == single.stamps.status.tolist()
    assert by_array.counts == by_one.counts


def between_steps(sink: EventSink, act: Callable[[int], None]) -> None:
    """End samples 2 to 7 as an array; ``act(n)`` where CPython lets another thread run for the n-th time.

    That is after calls and jumps back, and nowhere else.
    """
    switches: dict[int, bool] = {}
    seen = count()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_name != "end_run":
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            steps = pairwise(dis.get_instructions(frame.f_code))
            switches.update(
                {b.offset: a.opname.startswith(("CALL", "JUMP_BACK", "RESUME")) for a, b in steps}
            )
        if event == "opcode" and switches.get(frame.f_lasti):
            sys.settrace(None)
            act(next(seen))
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        sink.done_many(np.arange(2, 8))
    finally:
        sys.settrace(before)
    assert next(seen) > 3


def test_what_is_not_in_flight_is_never_seen_in_another_state() -> None:
    states = [GIVEN_UP if seq == 4 else ISSUED for seq in range(SAMPLES)]
    sink, records = sink_in(states)
    between_steps(sink, lambda _: sink.done(4, Done()))
    assert not records.breaches  # what was given up may still be reported
    assert [seq for seq in range(SAMPLES) if ends(sink)[seq] == "complete"] == [2, 3, 5, 6, 7]


@pytest.mark.parametrize("step", range(12))
def test_a_report_from_another_thread_at_any_step_counts_once(step: int) -> None:
    sink, records = sink_in([ISSUED] * SAMPLES)
    finished: list[int] = []
    sink.finished = finished.append
    reported: list[int] = []

    def report(at: int) -> None:
        if at == step:
            reported.append(at)
            sink.done(5, Done())

    between_steps(sink, report)
    assert sorted(finished) == list(range(2, 8))
    assert records.breaches == Counter({("ended_twice", 5): len(reported)})


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ([[1, 2]], None),
        ([1.0], None),
        (["a"], None),
        ([1], [-1]),
        ([1], [1, 2]),
        ([1], [2**31]),
        ([1], [0.5]),
    ],
)
def test_what_is_no_array_of_seqs_or_counts_is_a_breach_and_ends_nothing(given: Any, counts: Any) -> None:
    sink, records = sink_in([ISSUED] * SAMPLES)
    sink.done_many(given, counts)
    assert records.breaches == {("wrong_type", -1): 1}
    assert set(ends(sink)) == {""}


@given(
    st.lists(st.sampled_from(STATES), min_size=SAMPLES, max_size=SAMPLES),
    st.integers(0, SAMPLES - 1),
    st.lists(
        st.sampled_from(
            [Done(), Done(), Done(), Done("length"), Done(usage=Usage(1, 2)), Done(data=b""), "x", Chunk("c")]
        ),
        max_size=8,
    ),
)
def test_a_list_ends_what_its_members_would_one_by_one(
    states: list[int], first: int, answers: list[Any]
) -> None:
    seqs = range(first, min(first + 6, SAMPLES))
    listed, by_list = sink_in(states)
    single, by_one = sink_in(states)
    at_once = listed.done_all(seqs, answers)
    for seq, answer in zip(seqs, answers, strict=False):
        single.event(seq, answer)
    assert listed.state == single.state
    assert ends(listed) == ends(single)
    extra = max(0, len(answers) - len(seqs))
    assert by_list.breaches == by_one.breaches + Counter({("unknown_seq", -1): extra} if extra else {})
    assert by_list.counts == by_one.counts
    assert not at_once or set(ends(listed)[seqs.start : seqs.stop]) == {"complete"}


def test_the_remark_on_an_answer_beyond_the_batch_is_a_sentence() -> None:
    sink, records = sink_in([ISSUED] * SAMPLES)
    sink.done_all(range(2), [Done(), Done(), Done()])
    assert [data[1:] for kind, _, data in records.kept if kind == VIOLATION] == [
        b"Done beyond the batch of 2"
    ]


@given(
    st.builds(
        Limits,
        min_units=st.none() | st.integers(1, 30),
        min_duration_ns=st.integers(0, 50),
        max_units=st.none() | st.integers(1, 30),
        max_duration_ns=st.none() | st.integers(0, 50),
    ),
    st.integers(0, 30),
    st.integers(1, 30),
)
def test_nothing_ends_while_it_is_calm(limits: Limits, issued: int, planned: int) -> None:
    units, until_ns = calm(limits, issued, planned)
    reasons = {
        limits.end(number, planned, now)
        for number in range(issued + 1, units)
        for now in range(min(until_ns, 60))
    }
    assert reasons <= {None}


def test_a_block_is_a_sequence_of_queries_and_so_are_its_slices() -> None:
    samples = [Sample(index, {}, None, Generation(max_output_tokens=1)) for index in (4, 2, 9)]
    block = QueryBlock(np.arange(7, 10), np.array([4, 2, 9]), samples)
    assert [(q.seq, q.sample.index) for q in block] == [(7, 4), (8, 2), (9, 9)]
    part = block[1:]
    assert (len(part), part[0].seq, part[-1].seq) == (2, 8, 9)
    assert part.sample_index.tolist() == [2, 9]
    assert block[:] is block
    with pytest.raises(ValueError, match="steps of 2"):
        block[::2]
