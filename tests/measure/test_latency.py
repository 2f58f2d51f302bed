"""Latency metrics against numbers worked out by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from numpy import array, int64

from fairmark.measure.distribution import distribution

MS = 1_000_000


def row(start_ms, first_ms, last_ms, done_ms, tokens, *, lag_ms=0, **more):
    """A success: times in ms after its scheduled time, which is ``start_ms``."""
    at = start_ms * MS
    return {
        "scheduled_ns": at,
        "issued_ns": at + lag_ms * MS,
        "sent_ns": at + lag_ms * MS,
        "first_byte_ns": at + first_ms * MS,
        "first_token_ns": at + first_ms * MS,
        "last_token_ns": at + last_ms * MS,
        "completed_ns": at + done_ms * MS,
        "input_tokens": 10,
        "input_token_source": "usage",
        "output_tokens": tokens,
        "output_token_source": "usage",
        "finish_reason": "stop",
        **more,
    }


def test_table_by_hand(evidence_of, facts_of, measured):
    rows = [row(0, 100, 190, 200, 11), row(1000, 50, 240, 250, 5, lag_ms=10)]
    events = [
        # sample 0: 11 tokens in chunks of 1, 4, 6, at 100, 140 and 190 ms
        {"seq": 0, "arrival_ns": 90 * MS, "read": 0, "kind": "role", "n_tokens": 0},
        {"seq": 0, "arrival_ns": 100 * MS, "read": 1, "kind": "reasoning", "n_tokens": 1},
        {"seq": 0, "arrival_ns": 140 * MS, "read": 2, "kind": "content", "n_tokens": 4},
        {"seq": 0, "arrival_ns": 190 * MS, "read": 3, "kind": "content", "n_tokens": 6},
        {"seq": 0, "arrival_ns": 195 * MS, "read": 4, "kind": "usage"},
        # sample 1: 5 tokens in chunks of 2 and 3, at 1050 and 1240 ms
        {"seq": 1, "arrival_ns": 1050 * MS, "read": 0, "kind": "content", "n_tokens": 2},
        {"seq": 1, "arrival_ns": 1240 * MS, "read": 1, "kind": "content", "n_tokens": 3},
    ]
    found = measured(evidence_of(rows, events=events), facts_of())["latency"]

    def values(name, origin="between_events"):
        d = found[name][origin]
        return d["min_ns"], d["max_ns"]

    assert values("ttft_ns", "from_schedule") == (50 * MS, 100 * MS)
    assert values("ttft_ns", "from_send") == (40 * MS, 100 * MS)
    assert values("ttfo_ns", "from_schedule") == (50 * MS, 140 * MS)  # reasoning is not visible
    assert values("e2e_ns", "from_schedule") == (200 * MS, 250 * MS)
    assert values("e2e_ns", "from_send") == (200 * MS, 240 * MS)
    assert values("tpot_ns") == (10 * MS, 50 * MS)  # 100 ms / 10 and 200 ms / 4
    assert values("tpot_decode_ns") == (9 * MS, 190 * MS // 3)  # 90 ms / 10 and 190 ms / 3
    assert values("icl_ns") == (40 * MS, 190 * MS)
    assert found["icl_ns"]["between_events"]["n"] == 3
    assert values("itl_ns") == (50 * MS // 6, 190 * MS // 3)
    assert found["itl_ns"]["between_events"]["n"] == 4 + 6 + 3
    assert values("max_gap_ns") == (50 * MS, 190 * MS)
    assert values("ntpot_ns", "from_schedule") == (200 * MS // 11, 50 * MS)
    assert values("wait_ns") == (0, 10 * MS)


def test_open_loop_latency_counts_from_the_schedule(case, evidence_of, facts_of, measured):
    """One server, 0.4 s each, offered every 0.1 s through one connection (coordinated omission)."""
    published = case("M07")
    rows = []
    free = 0.0
    for start in published["input"]["schedule_s"]:
        sent = max(start, free)
        free = sent + 0.4
        rows.append(row(0, 0, 0, 0, 2))
        rows[-1].update({k: round(sent * 1e3) * MS for k in ("issued_ns", "sent_ns")})
        rows[-1].update(scheduled_ns=round(start * 1e3) * MS)
        rows[-1].update(
            {k: round(free * 1e3) * MS for k in ("first_token_ns", "last_token_ns", "completed_ns")}
        )
    metrics = measured(evidence_of(rows), facts_of())
    e2e = metrics["latency"]["e2e_ns"]
    expect = published["expect"]
    assert e2e["from_schedule"]["p50_ns"] == expect["p50_from_schedule"] * 1e9
    assert e2e["from_schedule"]["max_ns"] == max(expect["latency_from_schedule_s"]) * 1e9
    assert e2e["from_send"]["min_ns"] == e2e["from_send"]["max_ns"] == 0.4e9
    assert metrics["client"]["send_lag_ns"]["max_ns"] == 1_200 * MS


def test_outputs_of_no_and_one_token(evidence_of, facts_of, measured):
    one = row(0, 100, 100, 110, 1)
    none = row(200, 0, 0, 50, 0, first_token_ns=None, last_token_ns=None, failure="empty")
    found = measured(evidence_of([one, none]), facts_of())
    assert found["latency"]["tpot_ns"] == {"undefined": "no success has a first token and at least 2 tokens"}
    assert found["latency"]["ttft_ns"]["from_schedule"]["n"] == 1
    assert found["identity"] == {"undefined": "no success has a first token and at least 2 tokens"}
    assert found["counts"]["by_failure"] == {"empty": 1}


def test_without_streaming_ttft_is_undefined_not_zero(evidence_of, facts_of, measured):
    rows = [row(0, 0, 0, 100, 8, first_token_ns=None, last_token_ns=None)]
    found = measured(evidence_of(rows), facts_of(constraints="ttft_ms = 5"))
    assert found["latency"]["ttft_ns"] == {"undefined": "no success has a first-token stamp: not streamed"}
    assert found["constraint"]["bounds"]["ttft"]["unmeasured"] == 1
    assert found["constraint"]["bounds"]["ttft"]["n"] == 0


def test_tokens_are_not_applicable_to_data(evidence_of, facts_of, measured):
    rows = [row(0, 0, 0, 100, None, first_token_ns=None, last_token_ns=None)]
    found = measured(evidence_of(rows), facts_of(samples=', input = "data"'))
    assert found["latency"]["ttft_ns"]["undefined"].startswith("not applicable")
    assert found["tokens"]["undefined"].startswith("not applicable")
    assert found["latency"]["e2e_ns"]["from_schedule"]["p50_ns"] == 100 * MS
    assert found["rates"]["reasons"]["output_tokens_per_s"].startswith("not applicable")


def test_multistream_latency_is_the_querys_last_sample(evidence_of, facts_of, measured):
    rows = [row(0, 5, 5, done, 2, query=0, seq=i) for i, done in enumerate((10, 30, 20))]
    rows += [row(40, 5, 5, 10, 2, query=1, seq=3), row(40, 5, 5, 10, 2, query=1, seq=4, failure="timeout")]
    found = measured(evidence_of(rows), facts_of("MultiStream"))
    assert found["latency"]["query_ns"]["from_schedule"]["n"] == 1  # the second query has a failed sample
    assert found["latency"]["query_ns"]["from_schedule"]["max_ns"] == 30 * MS
    assert found["counts"]["queries"] == 2
    assert found["client"]["turnaround_ns"]["max_ns"] == 10 * MS


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=200))
def test_percentiles_are_elements_and_ordered(values):
    d = distribution(array(values, dtype=int64))
    points = [d[f"{p}_ns"] for p in ("p50", "p90", "p95", "p99", "p99_9")]
    assert points == sorted(points)
    assert set(points) <= set(values)
    assert d["min_ns"] <= points[0]
    assert points[-1] <= d["max_ns"]
    assert d["mean_ns"] == sum(values) // len(values)


tokens = st.integers(0, 50)
spans = st.integers(0, 10**9)


@given(st.lists(st.tuples(spans, spans, spans, spans, tokens), min_size=1, max_size=20))
def test_invariants_of_any_log(make_phase, stamps):
    rows = []
    for wait, first, last, rest, n in stamps:
        sent = 1000 * len(rows) + wait
        rows.append(
            {
                "scheduled_ns": 1000 * len(rows),
                "issued_ns": sent,
                "sent_ns": sent,
                "first_byte_ns": sent + first,
                "first_token_ns": sent + first if n else None,
                "last_token_ns": sent + first + last if n else None,
                "completed_ns": sent + first + last + rest,
                "input_tokens": 3,
                "output_tokens": n,
            }
        )
    found = make_phase(rows)
    assert found["counts"]["out_of_order"] == 0
    for name in ("e2e_ns", "ttft_ns"):
        both = found["latency"][name]
        if "undefined" not in both:
            for point in ("min_ns", "p50_ns", "p99_ns", "max_ns"):
                assert both["from_schedule"][point] >= both["from_send"][point]
    if "undefined" not in found["identity"]:
        assert found["identity"]["violations"] == 0
        assert found["identity"]["max_residual_ns"] < max(n for *_, n in stamps)
    if "undefined" not in found["concurrency"]:
        assert found["concurrency"]["identity_residual"] < 1e-9
