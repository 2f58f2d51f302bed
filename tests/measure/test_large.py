"""Ways to measure many events in little memory give what the plain ways give."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.errors import EvidenceError
from fairmark.evidence.tables import open_table, schema, table
from fairmark.measure import distribution
from fairmark.measure.arrow import ABSENT
from fairmark.measure.chunks import read_chunks
from fairmark.measure.distribution import PERCENTILES, at_ranks, pooled
from fairmark.measure.phase import read_phase

VALUES = st.lists(st.one_of(st.integers(0, 50), st.integers(0, 10**12)), min_size=1, max_size=200)


@settings(deadline=None)
@given(values=VALUES, weighted=st.booleans(), data=st.data())
def test_ranks_are_those_of_the_sorted_values(values, weighted, data):
    weights = [data.draw(st.integers(1, 5)) if weighted else 1 for _ in values]
    repeated = np.sort(np.repeat(values, weights))
    ranks = [0, len(repeated) // 3, len(repeated) // 2, len(repeated) - 1]
    given_weights = np.array(weights, dtype=np.int32) if weighted else None
    expected = repeated[ranks].tolist()
    assert at_ranks(np.array(values), ranks, given_weights) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distribution, "_FEW", 16)
        patch.setattr(distribution, "_BUCKETS", 8)
        assert at_ranks(np.array(values), ranks, given_weights) == expected


@settings(deadline=None)
@given(values=VALUES, data=st.data())
def test_pooled_weights_are_repetitions(values, data):
    weights = np.array([data.draw(st.integers(1, 9)) for _ in values], dtype=np.int32)
    assert pooled(np.array(values), weights) == pooled(np.repeat(values, weights))


EVENTS = st.lists(
    st.tuples(
        st.integers(0, 5),  # seq; 4 failed and 5 is not of the phase
        st.integers(0, 30),  # arrival
        st.sampled_from(["role", "content", "reasoning", "tool", "usage", "end"]),
        st.sampled_from([None, 0, 1, 1, 1, 3]),
    ),
    max_size=40,
)


def phase_of():
    row = {"phase": "performance", "issued_ns": 0, "sent_ns": 0, "completed_ns": 99}
    rows = [{**row, "seq": seq, "query": seq, "sample_index": 0} for seq in range(5)]
    rows[4]["failure"] = "stalled"
    names = {name for one in rows for name in one}
    return read_phase(table("queries", {n: [r.get(n) for r in rows] for n in names}), "performance")


def by_hand(events):
    """The same figures in plain Python."""
    found = {}
    for seq in range(4):
        mine = sorted((e for e in events if e[0] == seq), key=lambda e: e[1])
        mine = [e for e in mine if e[2] in ("content", "reasoning", "tool")]
        gaps = [b[1] - a[1] for a, b in itertools.pairwise(mine)]
        tokens = [e[3] for e in mine]
        visible = [e[1] for e in mine if e[2] == "content"]
        known = mine and None not in tokens
        found[seq] = {
            "gaps": gaps,
            "gap_tokens": [-1 if n is None else n for n in tokens[1:]],
            "first_visible": visible[0] if visible else ABSENT,
            "first_tokens": ABSENT if not mine or tokens[0] is None else tokens[0],
            "longest_gap": max(gaps, default=ABSENT),
            "token_sums": sum(tokens) if known else ABSENT,
        }
    return found


@settings(deadline=None)
@given(events=EVENTS, group=st.integers(1, 9), ordered=st.booleans())
def test_events_by_parts_give_what_they_give_at_once(tmp_path_factory, events, group, ordered):
    if ordered:
        events = sorted(events, key=lambda e: (e[0], e[1]))
    columns = dict(zip(("seq", "arrival_ns", "kind", "n_tokens"), zip(*events, strict=True), strict=False))
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    pq.write_table(table("events", columns), path, row_group_size=group, store_schema=True)
    chunks, expected = read_chunks(open_table("events", path), phase_of()), by_hand(events)
    for name in ("first_visible", "first_tokens", "longest_gap", "token_sums"):
        assert getattr(chunks, name)[:4].tolist() == [expected[seq][name] for seq in range(4)], name
        assert getattr(chunks, name)[4] == ABSENT
    assert chunks.gaps.tolist() == [gap for seq in range(4) for gap in expected[seq]["gaps"]]
    tokens = [n for seq in range(4) for n in expected[seq]["gap_tokens"]]
    if chunks.gap_tokens is None:
        assert set(tokens) <= {1}
    else:
        assert chunks.gap_tokens.tolist() == tokens


def test_a_table_on_disk_is_held_to_the_contract(tmp_path):
    path = tmp_path / "events.parquet"
    with pytest.raises(EvidenceError, match="missing"):
        open_table("events", path)
    pq.write_table(table("plan", {"seq": [1]}), path)
    with pytest.raises(EvidenceError, match="do not follow"):
        open_table("events", path)
    with pq.ParquetWriter(path, schema("events"), compression="none") as file:
        file.write_table(table("events", {"seq": np.arange(20_000)}))
    found = open_table("events", path)
    assert len(found) == 20_000
    damaged = bytearray(path.read_bytes())
    damaged[4:2000] = bytes(1996)
    path.write_bytes(damaged)
    with pytest.raises(EvidenceError, match="not a readable"):
        list(found.parts(["seq"]))


def test_five_percentiles_are_named_once():
    assert list(PERCENTILES) == ["p50", "p90", "p95", "p99", "p99_9"]
