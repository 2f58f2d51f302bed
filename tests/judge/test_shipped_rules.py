"""Each shipped rule has a record that passes it and one that fails it alone."""

from __future__ import annotations

import pytest

from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset

P = "/metrics/performance"
OPEN, CLOSED = load_ruleset("fairmark-open-1"), load_ruleset("fairmark-closed-1")


def both(name, suffix, value):
    """The same change in the performance and in the accuracy phase, for their twin rules."""
    return {f"{phase}-{name}": {f"/metrics/{phase}{suffix}": value} for phase in ("performance", "accuracy")}


BREAKS = {
    "run-complete": {"/outcome/stop_reason": "interrupted"},
    "mode-known": {"/scenario/scenario": None},
    "clock-real": {"/clock": "virtual"},
    "samples-as-pinned": {"/samples/content_sha256": "b" * 64},
    **both("issued", "/counts/issued", 0),
    **both("failures", "/counts/failure_rate", 0.01),
    **both("plan-delivered", "/delivery/missing", 1),
    **both("tokens-counted", "/tokens/output_source_count", 2),
    **both("tokens-reconcile", "/tokens/event_token_mismatch", 1),
    **both("tokens-within-limit", "/tokens/over_limit", 1),
    **both("tokens-as-asked", "/tokens/under_limit", 1),
    **both("littles-law", "/concurrency/identity_residual", 2e-6),
    **both("plugin-contract", "/client/contract_violations", 1),
    **both("stamps-ordered", "/counts/out_of_order", 1),
    **both("answers-consistent", "/counts/flags", {"token_counts_differ": 1}),
    **both("answers-clean", "/counts/flags", {"no_end_marker": 3}),
    **both("tokens-in-text", "/tokens/over_bytes", 1),
    **both("input-counts-constant", "/tokens/input_varying", 1),
    **both("latency-identity", "/identity/violations", 1),
    **both("accuracy", "/accuracy/score", 0.89),
    "accuracy-tested": {"/mode": "performance"},
    "answers-hold-under-load": {f"{P}/accuracy/held_answers/peak_log10_capital": 2.0},
    "min-duration": {f"{P}/window/judged_duration_ns": 9_999_999_999},
    "min-queries": {f"{P}/counts/judged_queries": 1999},
    "bound-ttft": {f"{P}/constraint/bounds/ttft/over": 21},
    "bound-tpot": {f"{P}/constraint/bounds/tpot/over": 21},
    "bound-e2e": {f"{P}/constraint/bounds/e2e/over": 21},
    "bound-ttft-measured": {f"{P}/constraint/bounds/ttft/unmeasured": 1},
    "bound-tpot-measured": {f"{P}/constraint/bounds/tpot/unmeasured": 1},
    "bound-e2e-measured": {f"{P}/constraint/bounds/e2e/unmeasured": 1},
    "early-stopping": {f"{P}/early_stopping/more_needed": 7},
    "early-stopping-adjusted": {f"{P}/early_stopping/adjusted_more_needed": 7},
    "client-send-lag": {f"{P}/client/send_lag_ns/p99_ns": 1_000_001},
    "client-turnaround": {
        "/scenario/scenario": "Concurrency",
        f"{P}/client/turnaround_ns": {"n": 9, "p50_ns": 1, "p99_ns": 1_000_001, "max_ns": 9**9},
    },
    "client-cpu": {f"{P}/client/saturated_share": 0.02},
    "client-stalls": {f"{P}/client/stalled_share": 0.02},
    "connect-wait": {f"{P}/client/connect_wait_ns/p99_ns": 1_000_001},
    "wall-clock": {f"{P}/client/wall_clock/step_ns": 50_000_000},
    "server-bounded": {
        f"{P}/constraint/bounds": {},
        "/scenario/constraints": {"percentile": 99},
        "/scenario/classes/chat": {},
    },
    "client-ceiling": {f"{P}/client/ceiling_share": 0.51},
    "not-early": {f"{P}/delivery/issued_early": 1},
    "arrival-process": {f"{P}/delivery/gaps/ks_excess": 0.031},
    "overload": {f"{P}/steady/backlog/unserved_share": 0.3, f"{P}/steady/backlog/growth": 50.0},
    "overload-long": {f"{P}/steady/backlog/unserved_share": 0.11, f"{P}/steady/backlog/growth": 50.0},
    "backlog": {f"{P}/steady/backlog/unserved_share": 0.06, f"{P}/steady/backlog/growth": 50.0},
    "drift": {f"{P}/steady/drift/kendall_p": 0.001, f"{P}/steady/drift/half_change": 0.06},
    "trend": {f"{P}/steady/drift/kendall_p": 0.001},
    "transient-ends": {f"{P}/steady/mser/truncated_share": 0.5},
    "warm-up-inside": {f"{P}/steady/mser/truncated_share": 0.06},
    "first-window": {f"{P}/steady/first_window/ratio": 1.6},
    "steadiness-tested": {f"{P}/counts/judged_queries": 999, f"{P}/counts/min_queries": 1},
    "warm-up-steady": {"/outcome/phases": [{"phase": "warmup", "stop_reason": "max_duration"}]},
    "server-gauges": {f"{P}/concurrency/server/gap": 0.11},
    "classes-held": {f"{P}/classes/chat/excess": 1},
    "samples-pinned": {"/samples/pinned_sha256": None},
    "seeds-official": {"/scenario/seeds": {"qsl": "1", "sample_index": "2", "schedule": "3"}},
    "no-overrides": {"/overrides": ["run.min_query_count=1"]},
    "warm-up-disjoint": {"/scenario/warmup/samples": "same"},
    "dialect-core": {"/sut/dialect": "acme-chat"},
    "extra-known": {"/requests/extra": {"cache_prompt": False, "top_k": 1}},
    "accuracy-demanded": {"/scenario/accuracy/target": 0},
}


def test_the_record_is_one(record, run_schema):
    run_schema.validate({**record, "verdict": judge(record, CLOSED)})


@pytest.mark.parametrize("ruleset", [OPEN, CLOSED], ids=lambda r: r.id)
def test_every_rule_applies_to_a_valid_run_and_passes(ruleset, record):
    verdict = judge(record, ruleset)
    assert verdict["not_applicable"] == ["client-turnaround"]  # a Server run; closed loops have it
    assert [(r["id"], r["message"]) for r in verdict["rules"] if r["outcome"] != "pass"] == []
    assert (verdict["verdict"], verdict["reasons"], verdict["warnings"]) == ("VALID", [], [])


@pytest.mark.parametrize("rule", CLOSED.rules, ids=lambda rule: rule.id)
def test_each_rule_fails_alone(rule, record, put):
    for pointer, value in BREAKS[rule.id].items():
        put(record, pointer, value)
    verdict = judge(record, CLOSED)
    (broken,) = [r for r in verdict["rules"] if r["outcome"] != "pass"]
    assert broken["id"] == rule.id
    missing = None in BREAKS[rule.id].values()
    assert broken["outcome"] == ("not_evaluable" if missing else rule.failing)
    if rule.severity == "warning":
        assert (verdict["verdict"], verdict["warnings"]) == ("VALID", [broken["message"]])
    else:
        expected = "INSUFFICIENT" if broken["outcome"] == "insufficient" else "INVALID"
        assert (verdict["verdict"], verdict["reasons"]) == (expected, [broken["message"]])
    assert "{" not in broken["message"] + broken["expected"]


@pytest.mark.parametrize("isolation", ["in_process", "subprocess"])
@pytest.mark.parametrize("ruleset", [OPEN, CLOSED], ids=lambda r: r.id)
def test_an_engine_in_the_workers_process_is_not_judged_as_the_client(isolation, ruleset, record, put):
    put(record, "/sut/isolation", isolation)
    put(record, f"{P}/client/saturated_share", 1.0)
    put(record, f"{P}/client/stalled_share", 1.0)
    verdict = judge(record, ruleset)
    assert {"client-cpu", "client-stalls"} <= set(verdict["not_applicable"])
    assert [r["id"] for r in verdict["rules"] if r["outcome"] != "pass"] == []


@pytest.mark.parametrize("value", [None, "x", [], -1.0], ids=["null", "string", "array", "number"])
@pytest.mark.parametrize("rule", CLOSED.rules, ids=lambda rule: rule.id)
def test_nothing_passes_on_a_value_of_another_type(rule, value, record, put):
    wanted = {"integer": int, "number": float, "string": str, "array": list}.get(rule.needs[rule.at], dict)
    if isinstance(value, wanted):
        return
    put(record, rule.at, value)
    found = {r["id"]: r for r in judge(record, CLOSED)["rules"]}
    if rule.id in found:  # a rule may not apply where its value is not there
        assert found[rule.id]["outcome"] == rule.missing


def test_sentences_people_understand(record, put):
    put(record, f"{P}/client/send_lag_ns/p99_ns", 4_100_000)
    put(record, f"{P}/constraint/bounds/ttft/over", 300)
    put(record, f"{P}/constraint/bounds/ttft/at_percentile_ns", 1_833_250_000)
    put(record, f"{P}/counts/failed", 3)
    put(record, f"{P}/counts/failure_rate", 3 / 2100)
    put(record, f"{P}/counts/by_failure", {"stalled": 1, "timeout": 2})
    assert judge(record, OPEN)["reasons"] == [
        "3 of 2 100 performance queries failed (stalled 1, timeout 2): 0.1429 % > 0 %",
        "p99 TTFT is over its bound: 1 833 ms > 20 ms "
        "(300 of 2 100 queries over, 0 of them failed; 20 may be)",
        "the client was the bottleneck: p99 send lag 4.1 ms > 1 ms",
    ]


def test_insufficient_says_how_much_longer(record, put):
    put(record, f"{P}/early_stopping/needed", 2195)
    put(record, f"{P}/early_stopping/more_needed", 95)
    put(record, f"{P}/early_stopping/more_duration_s", 0.93)
    verdict = judge(record, OPEN)
    assert verdict["verdict"] == "INSUFFICIENT"
    assert verdict["reasons"] == [
        "too few queries for 99 % confidence at p99: 2 195 needed, run 95 more (about 1 s)"
    ]


def test_a_failure_outweighs_a_shortage(record, put):
    put(record, f"{P}/early_stopping/more_needed", 95)
    put(record, "/clock", "virtual")
    assert judge(record, OPEN)["verdict"] == "INVALID"


def test_a_run_without_numbers_is_invalid(record):
    record["metrics"] = {}
    verdict = judge(record, OPEN)
    assert verdict["verdict"] == "INVALID"
    found = {r["id"]: r for r in verdict["rules"]}
    assert found["performance-issued"]["outcome"] == "not_evaluable"
    assert found["performance-issued"]["message"].endswith("/metrics/performance/counts/issued is missing")


def test_a_null_says_why(record, put):
    put(record, f"{P}/client/send_lag_ns", {"undefined": "no sample was sent"})
    found = {r["id"]: r for r in judge(record, OPEN)["rules"]}["client-send-lag"]
    assert found["outcome"] == "not_evaluable"
    assert found["message"].endswith("does not exist: no sample was sent")
