"""Token accounting, and the two stages as fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import linregress

from fairmark.evidence.tables import table
from fairmark.measure.stages import inverse

MS = 1_000_000


def query(at_ms, tokens=4, source="usage", **more):
    at = at_ms * MS
    return {
        "scheduled_ns": at,
        "issued_ns": at,
        "sent_ns": at,
        "first_token_ns": at + 10 * MS,
        "last_token_ns": at + 40 * MS,
        "completed_ns": at + 40 * MS,
        "input_tokens": 100,
        "input_token_source": "usage",
        "output_tokens": tokens,
        "output_token_source": source,
        "finish_reason": "length",
    } | more


def test_mixed_sources_and_missing_counts_show(make_phase):
    rows = [query(0), query(100, source="tokenizer", finish_reason="stop")]
    rows += [query(200, tokens=None, source=None), query(300, failure="truncated", source="ids")]
    found = make_phase(rows)
    tokens = found["tokens"]
    assert tokens["output_sources"] == {"tokenizer": 1, "usage": 1}  # failures are not counted
    assert (tokens["output_source_count"], tokens["output_missing"]) == (2, 1)
    assert tokens["output_tokens"] is None
    assert found["rates"]["output_tokens_per_s"] is None
    assert found["rates"]["reasons"]["output_tokens_per_s"] == "not every success has its token counts"
    assert tokens["limit_hit_share"] == pytest.approx(2 / 3)


def test_chunks_that_do_not_add_up(evidence_of, facts_of, measured):
    def events(seq, counts):
        return [
            {"seq": seq, "arrival_ns": seq + i, "read": i, "kind": "content", "n_tokens": n}
            for i, n in enumerate(counts)
        ]

    told = [*events(0, [1, 3]), *events(1, [1, 2]), *events(2, [1, None])]
    found = measured(evidence_of([query(0), query(100), query(200)], events=told), facts_of())["tokens"]
    assert found["event_token_mismatch"] == 1
    assert found["tokens_per_chunk"] == pytest.approx(12 / 6)


def test_more_tokens_than_allowed_are_counted(evidence_of, facts_of, measured):
    facts = facts_of()
    rows = [query(0, tokens=4), query(100, tokens=5), query(200, tokens=1_000_000)]
    for limit, over in ((None, 0), (5, 1), (4, 2)):
        facts["scenario"]["generation"]["max_output_tokens"] = limit
        assert measured(evidence_of(rows), facts)["tokens"]["over_limit"] == over


def test_a_row_has_a_limit_of_its_own(evidence_of, facts_of, measured):
    evidence = evidence_of([query(0, tokens=4), query(100, tokens=5), query(200, tokens=9)])
    facts = facts_of(samples=', input = "length", output_tokens = "out"')
    rows = [f'{{"out":{n},"q":7}}' for n in (4, '"4"', 20)]
    evidence = replace(evidence, samples=table("samples", {"index": [0, 1, 2], "row": rows}))
    for cap, over in ((None, 1), (8, 2)):
        facts["scenario"]["generation"]["max_output_tokens"] = cap
        assert measured(evidence, facts)["tokens"]["over_limit"] == over


def test_fewer_tokens_than_ignore_eos_asks_for_are_counted(evidence_of, facts_of, measured):
    rows = [query(0, tokens=3, finish_reason="stop"), query(100, tokens=3), query(200, tokens=8)]
    rows += [query(300, tokens=None, source=None), query(400, tokens=1, failure="truncated")]
    rows += [
        query(500, tokens=3, source="tokenizer"),
        query(600, tokens=3, source="tokenizer", finish_reason="stop"),
    ]
    facts = facts_of()
    for ignore_eos, limit, stop, under in (
        (False, 8, [], 0),
        (True, None, [], 0),
        (True, 3, [], 0),
        (True, 8, [], 3),
        (True, 8, ["END"], 1),
    ):
        facts["scenario"]["generation"] |= {
            "ignore_eos": ignore_eos,
            "max_output_tokens": limit,
            "stop": stop,
        }
        assert measured(evidence_of(rows), facts)["tokens"]["under_limit"] == under


def test_a_row_asks_for_a_length_of_its_own(evidence_of, facts_of, measured):
    evidence = evidence_of([query(0, tokens=3), query(100, tokens=3), query(200, tokens=3)])
    facts = facts_of(samples=', input = "length", output_tokens = "out"')
    rows = [f'{{"out":{n},"q":7}}' for n in (3, 4, 20)]
    evidence = replace(evidence, samples=table("samples", {"index": [0, 1, 2], "row": rows}))
    facts["scenario"]["generation"]["ignore_eos"] = True
    for cap, under in ((None, 2), (3, 0)):
        facts["scenario"]["generation"]["max_output_tokens"] = cap
        assert measured(evidence, facts)["tokens"]["under_limit"] == under


def test_cached_share_needs_every_server_to_tell(make_phase):
    assert (
        make_phase([query(0, cached_tokens=50), query(100, cached_tokens=0)])["tokens"]["cached_share"]
        == 0.25
    )
    assert make_phase([query(0, cached_tokens=50), query(100)])["tokens"]["cached_tokens"] is None


def test_prefill_rate_is_recovered(make_phase):
    rng = np.random.default_rng(1)
    rows = []
    for i in range(300):
        length = int(rng.integers(50, 2000))
        ttft = 5 * MS + length * 20_000 + int(rng.normal(0, MS))  # 50 000 tokens/s and 5 ms
        at = i * 1000 * MS
        stamps = {"first_token_ns": at + ttft, "last_token_ns": at + 90 * MS, "completed_ns": at + 90 * MS}
        rows.append(query(i * 1000, input_tokens=length, **stamps))
    fit = make_phase(rows)["two_stages"]["prefill"]
    slope, fixed = fit["coefficients"]["ns_per_input_token"], fit["coefficients"]["ns_fixed"]
    assert slope["low"] < 20_000 < slope["high"]
    assert fixed["low"] < 5 * MS < fixed["high"]
    assert fit["derived"]["prefill_tokens_per_s"] == pytest.approx(50_000, rel=0.02)
    assert fit["r2"] > 0.9


@given(st.lists(st.lists(st.integers(-(10**12), 10**12), min_size=3, max_size=3), min_size=3, max_size=3))
def test_inverse_is_exact(matrix):
    found = inverse(matrix)
    a, b, c = matrix
    determinant = sum(
        a[i] * (b[(i + 1) % 3] * c[(i + 2) % 3] - b[(i + 2) % 3] * c[(i + 1) % 3]) for i in range(3)
    )
    assert (found is None) == (determinant == 0)
    if found is not None:
        for i, row in enumerate(matrix):
            product = [sum(v * found[k][j] for k, v in enumerate(row)) for j in range(3)]
            assert product == [int(i == j) for j in range(3)]


def test_the_fit_is_ordinary_least_squares(make_phase):
    rng = np.random.default_rng(3)
    rows, lengths, ttfts = [], rng.integers(50, 2000, 80), rng.integers(5 * MS, 80 * MS, 80)
    for i, (length, ttft) in enumerate(zip(lengths.tolist(), ttfts.tolist(), strict=True)):
        at = i * 1000 * MS
        stamps = {"first_token_ns": at + ttft, "last_token_ns": at + 90 * MS, "completed_ns": at + 90 * MS}
        rows.append(query(i * 1000, input_tokens=length, **stamps))
    fit = make_phase(rows)["two_stages"]["prefill"]
    expected = linregress(lengths, ttfts)
    assert fit["coefficients"]["ns_per_input_token"]["value"] == pytest.approx(expected.slope, rel=1e-9)
    assert fit["coefficients"]["ns_fixed"]["value"] == pytest.approx(expected.intercept, rel=1e-9)
    assert fit["r2"] == pytest.approx(expected.rvalue**2, rel=1e-9)
    x = np.column_stack([np.ones(80), lengths])
    bread = np.linalg.inv(x.T @ x)
    residual = ttfts - x @ [expected.intercept, expected.slope]
    errors = np.sqrt(np.diag(bread @ (x.T * residual**2) @ x @ bread) * 80 / 78)
    half = 1.959963984540054 * errors[1]
    assert fit["coefficients"]["ns_per_input_token"]["high"] == pytest.approx(expected.slope + half, rel=1e-9)


def test_a_stage_that_does_not_vary_has_no_fit(make_phase):
    found = make_phase([query(i * 100) for i in range(30)])["two_stages"]
    assert found["prefill"] == {"undefined": "nothing varies: ns_per_input_token, ns_per_prefill"}
    assert found["decode"] == {"undefined": "nothing varies: ns_per_decode"}
    few = make_phase([query(i * 100) for i in range(19)])["two_stages"]
    assert few["decode"] == {"undefined": "needs 20 samples with these stamps, has 19"}


def test_decode_step_grows_with_company(make_phase):
    rows = []
    for i in range(60):
        company = i % 3 + 1
        for j in range(company):
            at = i * 1000
            done = (at + 10 + 30 * (10 + 5 * (company - 1)) // 10) * MS
            rows.append(query(at + 0, 4, completed_ns=done, last_token_ns=done, sample_index=j))
    coefficients = make_phase(rows)["two_stages"]["decode"]["coefficients"]
    assert coefficients["ns_fixed"]["value"] == pytest.approx(10 * MS, rel=0.01)
    assert coefficients["ns_per_decode"]["value"] == pytest.approx(5 * MS, rel=0.01)
