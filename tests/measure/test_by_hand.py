"""Small runs whose every number was worked out by hand; and no metric is without a test."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

MS = 1_000_000
HERE = Path(__file__).parent

# Times in ms: scheduled, issued, sent, first byte, first token, last token, completed; tokens in, out.
SERVED = [
    (0, 1, 2, 10, 12, 30, 32, 5, 4),
    (100, 100, 101, 110, 121, 141, 141, 7, 3),
    (200, 203, 203, 205, 213, 223, 233, 5, 3),
]
STAMPS = ("scheduled", "issued", "sent", "first_byte", "first_token", "last_token", "completed")


def rows():
    served = [
        {
            **{f"{name}_ns": at * MS for name, at in zip(STAMPS, times, strict=True)},
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "input_token_source": "usage",
            "output_token_source": "usage",
            "finish_reason": reason,
            "connection_new": False,
        }
        for (*times, tokens_in, tokens_out), reason in zip(SERVED, ("stop", "stop", "length"), strict=True)
    ]
    lost = {"scheduled_ns": 300 * MS, "issued_ns": 300 * MS, "sent_ns": 300 * MS, "completed_ns": 900 * MS}
    return [*served, {**lost, "failure": "timeout", "connection_new": False}]


@pytest.fixture(scope="module")
def run(evidence_of, facts_of, measured):
    facts = facts_of(
        constraints="percentile = 50\nttft_ms = 20\nmax_failure_rate = 0.25",
        more="[classes.fast]\nttft_ms = 15\nmax_failure_rate = 0.5",
    )
    return measured(evidence_of(rows()), facts)


def test_counts_and_window(run):
    assert (run["counts"]["judged_queries"], run["counts"]["flags"]) == (4, {})
    window = run["window"]
    assert (window["first_issue_ns"], window["last_issue_ns"]) == (1 * MS, 300 * MS)
    assert (window["last_scheduled_ns"], window["end_ns"]) == (300 * MS, 900 * MS)


def test_rates(run):
    # (n - 1) / (c - f): 3 in 20 ms, 2 in 20 ms, 2 in 20 ms.
    assert run["rates"]["output_tokens_per_s_per_user"] == pytest.approx(100.0)
    assert run["rates"]["steady"]["end_ns"] == 300 * MS


def test_latencies(run):
    first_bytes = run["latency"]["ttfb_ns"]["from_schedule"]  # 10, 10 and 5 ms
    assert [first_bytes[f"{p}_ns"] for p in ("min", "p50", "p90", "p99_9")] == [
        5 * MS,
        10 * MS,
        10 * MS,
        10 * MS,
    ]
    assert set(first_bytes["intervals"]) == {"p50", "p90", "p95", "p99", "p99_9"}
    assert "undefined" in first_bytes["intervals"]["p50"]


def test_bounds_and_classes(run):
    constraint = run["constraint"]
    assert constraint["max_failure_rate"] == 0.25
    bound = constraint["bounds"]["ttft"]  # 12, 21 and 13 ms, and the failure
    assert (bound["bound_ns"], bound["over"], bound["over_allowed"]) == (20 * MS, 2, 1)
    assert run["classes"]["fast"]["max_failure_rate"] == 0.5


def test_client(run):
    client = run["client"]
    assert (client["lag_basis"], client["contract_violations"]) == ("schedule", 0)
    assert client["connect_wait_ns"] == {"undefined": "no query had a connection opened for it"}
    # 1 % of the tightest bound is less than the 1 ms that is always allowed.
    assert client["turnaround_limit_ns"] == 1 * MS
    assert (client["saturated_share"], client["steal_max"], client["stalled_share"]) == (None, None, 0.0)
    assert "undefined" in client["wall_clock"]


def test_the_wall_clock_by_hand(evidence_of, facts_of, measured):
    from dataclasses import replace

    def anchor(monotonic_us, wall_us):
        return {"clock": {"monotonic_us": monotonic_us, "wall_us": wall_us}}

    environment = {"before": anchor(1_000, 50_000), "after": anchor(3_000, 51_500)}
    found = measured(replace(evidence_of(rows()), environment=environment), facts_of())
    assert found["client"]["wall_clock"] == {"elapsed_ns": 2_000_000, "step_ns": 500_000}


def test_delivery(run):
    lag = run["delivery"]["issue_lag_ns"]  # 1, 0, 3 and 0 ms
    assert (lag["n"], lag["p50_ns"], lag["max_ns"]) == (4, 1 * MS, 3 * MS)


def test_tokens(run):
    tokens = run["tokens"]
    assert tokens["finish_reasons"] == {"length": 1, "stop": 2}
    assert tokens["input_sources"] == {"usage": 3}
    assert (tokens["input_missing"], tokens["input_varying"], tokens["over_bytes"]) == (0, 0, 0)
    assert (tokens["input_lengths"]["mean"], tokens["output_lengths"]["max"]) == (17 / 3, 4)


def test_by_length(run):
    (bucket,) = run["by_length"]["input"]
    assert (bucket["tpot_p99_ns"], bucket["e2e_p99_ns"]) == (None, None)


def test_a_recording_by_hand(evidence_of, facts_of, measured):
    facts = facts_of(samples=', lengths_like = "fairmark:azure-code-2023"')
    like = measured(evidence_of(rows()), facts)["by_length"]["like"]
    # No recorded answer is shorter than 6 tokens, and no request but one shorter than 8.
    assert (like["recording"], like["output_ks"]) == ("fairmark:azure-code-2023", 1.0)


def test_forty_queries_without_dependence(evidence_of, facts_of, measured):
    steady = [
        {
            **{
                f"{name}_ns": (100 * i + at) * MS
                for name, at in zip(STAMPS, (0, 0, 0, 5, 10, 20, 20), strict=True)
            },
            "input_tokens": 3,
            "output_tokens": 2,
        }
        for i in range(500)
    ]
    run = measured(evidence_of(steady), facts_of(constraints="ttft_ms = 50"))
    adjusted = run["early_stopping"]["adjusted"]["ttft"]
    assert (adjusted["n_eff"], adjusted["over_eff"], adjusted["vif"]) == (500, 0, 1.0)
    # A constant has no dependence: every value counts.
    assert run["latency"]["ttft_ns"]["from_schedule"]["intervals"]["p50"]["n_eff"] == 500.0
    assert run["steady"]["mser"]["batch"] == 5
    assert run["steady"]["mser"]["p99_after_ns"] == 20 * MS
    assert run["steady"]["backlog"]["median_in_flight"] == 0.0
    assert run["steady"]["backlog"]["slope_qps"] == pytest.approx(0.0, abs=1e-12)
    # Constant gaps of 100 ms against a Poisson process of 10/s: 1 - 1/e just before the step, which is at 1.
    assert run["delivery"]["gaps"]["ks"] == pytest.approx(1 - 0.36788, abs=1e-5)


def test_no_metric_is_without_a_test():
    """Each metric's own name stands, quoted, in some test that measures or judges."""
    found = importlib.util.spec_from_file_location("metric_docs", HERE / "test_metric_docs.py")
    docs = importlib.util.module_from_spec(found)
    found.loader.exec_module(docs)
    files = [*HERE.glob("*.py"), *(HERE.parent / "judge").glob("*.py")]
    tested = {
        name for file in files for name in re.findall(r'["/]([a-z_0-9]+)["/\]]', file.read_text("utf-8"))
    }
    assert {path for path in docs.schema_ids() if path.split(".")[-1] not in tested} <= {
        "distribution.p95_ns",  # these are made from a list of percentiles
        "distribution.p90_ns",
        "distribution.p99_9_ns",
        "distribution.min_ns",
    }
