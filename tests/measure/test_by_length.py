"""Buckets by length, by hand; distances between distributions, against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from fairmark.measure.by_length import ks_distance
from fairmark.samples.recordings import recorded_lengths

MS = 1_000_000


def row(at_ms, tokens, answer, ttft_ms=10, tpot_ms=2):
    end = at_ms + ttft_ms + tpot_ms * (answer - 1)
    return {
        "scheduled_ns": at_ms * MS,
        "issued_ns": at_ms * MS,
        "sent_ns": at_ms * MS,
        "first_token_ns": (at_ms + ttft_ms) * MS,
        "last_token_ns": end * MS,
        "completed_ns": end * MS,
        "input_tokens": tokens,
        "output_tokens": answer,
    }


def test_buckets_by_hand(make_phase):
    rows = [row(0, 3, 4), row(100, 2, 5, ttft_ms=30), row(200, 1023, 4), row(980, 1024, 11, ttft_ms=0)]
    by_length = make_phase([*rows, {"scheduled_ns": 300 * MS, "issued_ns": 300 * MS, "failure": "timeout"}])[
        "by_length"
    ]
    first, second, third = by_length["input"]
    assert [(b["from_tokens"], b["below_tokens"], b["n"]) for b in by_length["input"]] == [
        (2, 4, 2),
        (512, 1024, 1),
        (1024, 2048, 1),
    ]
    # The window is 1 s: the first is due at 0, the last completes at 980 + 20 ms.
    assert (first["qps"], first["output_tokens_per_s"], first["total_tokens_per_s"]) == (2.0, 9.0, 14.0)
    assert (first["mean_input_tokens"], first["mean_output_tokens"]) == (2.5, 4.5)
    assert (first["ttft_p50_ns"], first["tpot_p50_ns"], first["e2e_p50_ns"]) == (30 * MS, 2 * MS, 38 * MS)
    assert (second["n"], third["ttft_p50_ns"]) == (1, 0)
    assert first["ttft_p99_ns"] is None
    assert first["reasons"]["ttft_p99_ns"] == "needs 100 successes with this latency, has 2"
    assert [(b["from_tokens"], b["n"]) for b in by_length["output"]] == [(4, 3), (8, 1)]
    assert by_length["like"] == {"undefined": "the scenario names no recording to compare lengths with"}


def test_buckets_add_up_to_the_run(make_phase):
    rng = np.random.default_rng(2)
    rows = [row(10 * i, int(n), int(rng.integers(1, 300))) for i, n in enumerate(rng.integers(0, 5000, 400))]
    metrics = make_phase(rows)
    for side in ("input", "output"):
        buckets = metrics["by_length"][side]
        assert sum(b["n"] for b in buckets) == 400
        for rate in ("qps", "output_tokens_per_s", "total_tokens_per_s"):
            assert sum(b[rate] for b in buckets) == pytest.approx(metrics["rates"][rate])


def test_a_missing_count_leaves_no_bucket(make_phase):
    by_length = make_phase([row(0, 3, 4), {**row(10, 3, 4), "output_tokens": None}])["by_length"]
    assert by_length["output"] == {"undefined": "not every success has its token count"}
    assert by_length["input"][0]["output_tokens_per_s"] is None


def test_a_run_is_held_against_the_recording_it_names(evidence_of, facts_of, measured):
    facts = facts_of(samples=', lengths_like = "fairmark:azure-conv-2023"')
    recorded = recorded_lengths("fairmark:azure-conv-2023")
    picks = np.random.default_rng(4).integers(0, 19_366, 1000)
    like = [row(10 * i, recorded.input_tokens[k], recorded.output_tokens[k]) for i, k in enumerate(picks)]
    found = measured(evidence_of(like), facts)["by_length"]["like"]
    assert (found["n"], found["recorded"]) == (1000, 19_366)
    assert found["input_ks"] < found["ks_5_percent"] == pytest.approx(0.04404, abs=1e-4)
    unlike = [row(10 * i, 128, 128) for i in range(1000)]
    assert measured(evidence_of(unlike), facts)["by_length"]["like"]["input_ks"] > 0.8


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
    st.lists(st.integers(0, 30), min_size=1, max_size=60),
)
def test_the_distance_is_scipys(one, other):
    assert ks_distance(np.array(one), np.array(other)) == pytest.approx(ks_2samp(one, other).statistic)
