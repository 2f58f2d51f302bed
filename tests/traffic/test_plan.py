"""What a plan promises whatever its settings are, and what cannot be planned."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.scenario.load import parse_scenario
from fairmark.scenario.model import Scenario, ScenarioKind, Seeds
from fairmark.traffic.plan import Plan, make_plan, plan_sha256, run_plan
from fairmark.traffic.recorded import arrivals_sha256, read_arrivals, read_embedded_arrivals
from fairmark.traffic.seeds import derive_seed, effective_seeds
from fairmark.traffic.settings import DEFAULT_QPS, TrafficSettings, traffic_settings
from fairmark.traffic.warmup import warmup_plan

SEED = st.integers(0, 2**64 - 1)

SCENARIO = """
schema = "fairmark/scenario/1"
name = "test"
scenario = "Server"
[model]
name = "model"
[samples]
source = "rows.jsonl"
prompt = "prompt"
performance_sample_count = 40
[settings]
target_qps = 100
"""


def scenario(*overrides: str, source: str = "test.toml") -> Scenario:
    return parse_scenario(SCENARIO.encode(), source=source, overrides=overrides)


@st.composite
def traffic(draw: st.DrawFn, *, continued: bool = False) -> TrafficSettings:
    kinds = ["SingleStream", "MultiStream", "Server", "Concurrency"] + ([] if continued else ["Offline"])
    samplings = ["replacement", "same", "equal"] + ([] if continued else ["unique"])
    total = draw(st.integers(1, 150))
    performance = draw(st.integers(1, total))
    mode = "performance" if continued else draw(st.sampled_from(["performance", "accuracy"]))
    process = draw(st.sampled_from(["poisson", "constant", "gamma"]))
    return TrafficSettings(
        scenario=draw(st.sampled_from(kinds)),
        mode=mode,
        total_sample_count=total,
        performance_sample_count=performance,
        accuracy_sample_count=draw(st.integers(1, total)),
        target_qps=draw(st.floats(1.0, 1000.0)),
        min_duration_ns=draw(st.integers(0, 10**9)),
        min_query_count=draw(st.integers(1, 200)),
        seeds=Seeds(draw(SEED), draw(SEED), draw(SEED)),
        samples_per_query=draw(st.integers(1, 9)),
        sampling="replacement" if mode == "accuracy" else draw(st.sampled_from(samplings)),
        same_index=draw(st.integers(0, performance - 1)),
        process=process,
        cv=0.7 if process == "gamma" else None,
    )


@given(traffic(continued=True), st.integers(0, 500))
def test_a_longer_plan_begins_with_the_shorter_one(s: TrafficSettings, more: int) -> None:
    plan = make_plan(s)
    longer = make_plan(s, at_least_queries=plan.query_count + more)
    assert longer.query_count >= plan.query_count + more
    assert longer.sample_index[: len(plan.sample_index)].tolist() == plan.sample_index.tolist()
    assert longer.scheduled_ns[: plan.query_count].tolist() == plan.scheduled_ns.tolist()
    assert make_plan(s, at_least_queries=1).query_count == plan.query_count


@given(traffic(), st.floats(0.01, 1e5))
def test_a_run_has_loadgens_list_and_in_closed_loops_a_reserve(s: TrafficSettings, qps: float) -> None:
    s = replace(s, target_qps=qps, min_duration_ns=min(s.min_duration_ns, 10**8))
    plan, run = make_plan(s), run_plan(s)
    assert run.sample_index[: len(plan.sample_index)].tolist() == plan.sample_index.tolist()
    assert run.scheduled_ns[: plan.query_count].tolist() == plan.scheduled_ns.tolist()
    generated = (plan.query_count, plan.generated_duration_ns)
    assert (run.generated_query_count, run.generated_duration_ns) == generated
    guessed = s.scenario not in ("Server", "Offline") and not s.covers_set
    wanted = s.generation_ns / 1e9 * min(64 * qps, DEFAULT_QPS[s.scenario]) if guessed else 0
    assert run.query_count >= wanted
    if plan.query_count >= wanted:
        assert plan_sha256(run) == plan_sha256(plan)


@pytest.mark.parametrize(
    ("kind", "expected_qps", "queries"),
    [
        ("SingleStream", 0.5, 2**16),
        ("SingleStream", 2.0, 2 * 600 * 64 * 2),
        ("SingleStream", 500.0, 2**20),
        ("MultiStream", 0.05, 2**16 // 8),
        ("MultiStream", 0.5, 2 * 600 * 64 // 2),
        ("MultiStream", 100.0, 2**20 // 8),
    ],
)
def test_the_reserve_of_ten_minutes_is_64_times_the_guess_or_65536_samples(
    kind: ScenarioKind, expected_qps: float, queries: int
) -> None:
    s = replace(
        traffic_settings(scenario(), "performance", 50),
        scenario=kind,
        target_qps=expected_qps,
        min_duration_ns=600 * 10**9,
    )
    assert s.reserve_query_count == queries
    assert run_plan(s).query_count == queries


def test_a_reserve_ends_at_a_million_samples() -> None:
    s = replace(traffic_settings(scenario(), "performance", 50), scenario="MultiStream", target_qps=2.0)
    hours = replace(s, min_duration_ns=10**13, samples_per_query=8)
    assert hours.reserve_query_count == 2**20 // 8


@given(traffic())
def test_invariants(s: TrafficSettings) -> None:
    plan = make_plan(s)
    offsets = plan.query_offsets
    assert len(offsets) == plan.query_count + 1
    assert offsets[-1] == len(plan.sample_index)
    assert plan.sample_index.dtype == plan.scheduled_ns.dtype == np.int64
    covered = s.accuracy_sample_count if s.mode == "accuracy" else s.performance_sample_count
    assert 0 <= plan.sample_index.min() <= plan.sample_index.max() < covered
    for part in plan.sets:
        due = plan.scheduled_ns[part.first_query : part.end_query]
        assert due[0] == 0
        assert (np.diff(due) >= 0).all()
        assert part.generated_duration_ns >= due[-1]
        sent = plan.sample_index[offsets[part.first_query] : offsets[part.end_query]]
        assert set(sent.tolist()) <= set(part.samples.tolist())
    if s.mode == "accuracy":
        assert set(plan.sample_index.tolist()) == set(range(s.accuracy_sample_count))
        if s.scenario != "MultiStream":
            assert len(plan.sample_index) == s.accuracy_sample_count
    elif s.sampling != "unique":
        assert plan.query_count >= s.effective_min_query_count
        assert plan.scheduled_ns[-1] >= s.generation_ns


@given(traffic())
def test_concurrency_sends_what_single_stream_sends(s: TrafficSettings) -> None:
    one = make_plan(replace(s, scenario="SingleStream"))
    many = make_plan(replace(s, scenario="Concurrency"))
    assert plan_sha256(one) == plan_sha256(many)


@pytest.mark.parametrize(
    "changes", [{"sampling": "unique"}, {"mode": "accuracy"}, {"scenario": "Offline"}], ids=str
)
def test_one_pass_cannot_be_continued(changes: dict[str, Any]) -> None:
    s = traffic_settings(scenario(), "performance", 50)
    with pytest.raises(ValueError, match="one pass"):
        make_plan(replace(s, **changes), at_least_queries=100)


def test_the_digest_is_of_the_traffic() -> None:
    plan = make_plan(replace(traffic_settings(scenario(), "performance", 50), min_query_count=3))
    header = b'{"plan":"fairmark/plan/1","sets":[[%d,1]]}\n' % plan.query_count
    content = header + plan.sample_index.astype("<i8").tobytes() + plan.scheduled_ns.astype("<i8").tobytes()
    assert plan_sha256(plan) == hashlib.sha256(content).hexdigest()
    shifted = Plan(plan.settings, plan.sample_index, plan.scheduled_ns + 1, plan.sets)
    assert plan_sha256(shifted) != plan_sha256(plan)


def test_seeds_of_repetitions_and_challenges() -> None:
    base = Seeds(1, 2, 3)
    assert effective_seeds(base) == base
    message = b'["fairmark/seed/1","qsl","1",2,"\\u00e9\\"",null]'
    expected = int.from_bytes(hashlib.sha256(message).digest()[:8], "big")
    assert derive_seed("qsl", 1, 2, 'é"', None) == expected
    derived = [
        effective_seeds(base, repetition=1),
        effective_seeds(base, repetition=2),
        effective_seeds(base, nonce="a"),
        effective_seeds(base, nonce="b"),
        effective_seeds(base, repetition=1, nonce="a"),
        effective_seeds(base, label="warmup"),
    ]
    seeds = [seed & 0xFFFFFFFF for s in derived for seed in (s.qsl, s.sample_index, s.schedule)]
    assert len(set(seeds)) == len(seeds)


def test_settings_of_a_scenario() -> None:
    s = traffic_settings(
        scenario("run.min_duration_s=1.5", "settings.min_query_count=200"), "performance", 50
    )
    assert (s.total_sample_count, s.performance_sample_count, s.accuracy_sample_count) == (50, 40, 50)
    assert (s.target_qps, s.min_duration_ns, s.min_query_count) == (100.0, 1_500_000_000, 200)
    assert s.seeds.qsl == 2085463073848966840
    repeated = traffic_settings(scenario(), "performance", 50, repetition=1)
    assert repeated.seeds == effective_seeds(s.seeds, repetition=1)


def test_accuracy_of_a_repeated_sample_covers_all() -> None:
    same = scenario("run.sampling='same'", "run.same_index=3")
    assert set(make_plan(traffic_settings(same, "performance", 50)).sample_index.tolist()) != set(range(50))
    accuracy = make_plan(traffic_settings(same, "accuracy", 50))
    assert sorted(accuracy.sample_index.tolist()) == list(range(50))


@pytest.mark.parametrize(
    ("rows", "overrides", "message"),
    [
        (0, [], r"samples\.source: has no rows"),
        (39, [], r"samples\.performance_sample_count: is impossible \(got 40\); accepted: 1 to 39"),
        (50, ["samples.accuracy_sample_count=51"], r"samples\.accuracy_sample_count: is impossible"),
        (50, ["settings.target_qps=1e10"], r"settings\.target_qps: is impossible"),
        (50, ["settings.target_qps=1e-9"], r"settings\.target_qps: is impossible"),
        (
            50,
            ["settings.target_qps=1e6", "run.min_duration_s=1e6"],
            r"settings\.target_qps: asks, with the floors",
        ),
        (50, ["arrivals.process='gamma'", "arrivals.cv=1000"], r"arrivals\.cv: is impossible"),
        (
            50,
            ["settings.target_qps=1e-6", "run.min_query_count=10000000"],
            r"settings\.target_qps: makes, with the floors, a schedule of 1e\+13 s",
        ),
    ],
)
def test_what_cannot_be_planned(rows: int, overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        traffic_settings(scenario(*overrides), "performance", rows)
    assert refusal.value.source == "test.toml"


def recorded(tmp_path: Path, text: str, *overrides: str, sha256: str | None = None) -> TrafficSettings:
    path = tmp_path / "arrivals.txt"
    path.write_text(text)
    pin = arrivals_sha256(read_arrivals(path)) if sha256 is None else sha256
    chosen = ["arrivals.process='trace'", "arrivals.trace='arrivals.txt'", *overrides]
    chosen += [f"arrivals.sha256='{pin}'"] if pin else []
    return traffic_settings(scenario(*chosen, source=str(tmp_path / "test.toml")), "performance", 50)


def test_recorded_arrivals(tmp_path: Path) -> None:
    s = recorded(tmp_path, "# seconds\n10\n10.5\n\n12\n", "run.min_query_count=3", "settings.target_qps=1")
    assert make_plan(s).scheduled_ns.tolist() == [0, 500_000_000, 2_000_000_000]
    accuracy = make_plan(replace(s, mode="accuracy"))
    assert accuracy.scheduled_ns[:5].tolist() == [0, 5 * 10**8, 2 * 10**9, 3 * 10**9, 35 * 10**8]


TWO_SECONDS_APART = hashlib.sha256(np.array([0, 2 * 10**9], "<i8").tobytes()).hexdigest()


def test_a_recording_is_pinned_by_its_arrivals(tmp_path: Path) -> None:
    """By their distances, so that comments and the first one's time do not matter."""
    for text in ("5\n7\n", "# later\n1005\n1007.0\n"):
        own_rate = ("run.min_query_count=2", "settings.target_qps=0.5")
        s = recorded(tmp_path, text, *own_rate, sha256=TWO_SECONDS_APART)
        assert s.recorded_ns == (0, 2 * 10**9)


def test_a_recording_is_stretched_to_the_rate_that_is_asked_for(tmp_path: Path) -> None:
    s = recorded(tmp_path, "10\n10.5\n12\n", "run.min_query_count=3", "settings.target_qps=4")
    assert s.recorded_ns == (0, 125_000_000, 500_000_000)
    with pytest.raises(InputError, match="no rate to scale"):
        recorded(tmp_path, "5\n5\n", "run.min_query_count=2")


def test_the_embedded_recordings_are_those_of_azure() -> None:
    conversation = read_embedded_arrivals("fairmark:azure-conv-2023")
    assert len(conversation) == 19_366
    # 18:15:46.6805900, 18:15:50.9951690 and 19:14:08.4025270
    assert conversation[:2] == (0, 4_314_579_000)
    assert conversation[-1] == 3_501_721_937_000
    with pytest.raises(InputError, match="no embedded recording") as refusal:
        read_embedded_arrivals("fairmark:gsm8k-test")
    assert "fairmark:azure-code-2023" in str(refusal.value)


def test_another_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"arrivals\.sha256: is not that of arrivals\.txt") as refusal:
        recorded(tmp_path, "5\n8\n", sha256=TWO_SECONDS_APART)
    assert refusal.value.value == TWO_SECONDS_APART


def test_a_recording_without_a_pin_is_refused_with_the_one_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"arrivals\.sha256: is missing") as refusal:
        recorded(tmp_path, "5\n7\n", sha256="")
    assert TWO_SECONDS_APART in str(refusal.value)


def test_two_recordings_have_two_scenario_digests() -> None:
    pins = [f"arrivals.sha256='{digit * 64}'" for digit in "ab"]
    traced = ("arrivals.process='trace'", "arrivals.trace='arrivals.txt'")
    assert len({scenario(*traced, pin).digest for pin in pins}) == 2


def test_recorded_arrivals_that_end_too_soon(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"arrivals\.trace: end after 2 arrivals and .* before the run's floors"
    ):
        make_plan(recorded(tmp_path, "0\n1\n", "run.min_query_count=3"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n0\n", ":2: goes back in time"),
        ("1\nnan\n", ":2: is not an arrival time"),
        ("x\n", ":1: is not an arrival time"),
        ("-1\n", ":1: is not an arrival time"),
        ("# nothing\n", "holds no arrival"),
    ],
)
def test_recordings_that_cannot_be_read(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "arrivals.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_arrivals(path)


def test_warmup_uses_other_rows_once_each() -> None:
    plan = warmup_plan(scenario("warmup.queries=9"), 50)
    assert plan.query_count == 36
    passes = plan.sample_index[:30].reshape(3, 10)
    assert all(sorted(rows) == list(range(40, 50)) for rows in passes.tolist())
    assert set(plan.sample_index[30:].tolist()) <= set(range(40, 50))
    measured = make_plan(traffic_settings(scenario(), "performance", 50))
    assert plan.scheduled_ns[:5].tolist() != measured.scheduled_ns[:5].tolist()
    assert plan.seeds == effective_seeds(measured.seeds, label="warmup")


@pytest.mark.parametrize(
    ("kind", "overrides", "queries", "per_query"),
    [
        ("SingleStream", [], 64, 1),
        ("SingleStream", ["warmup.max_queries=20"], 20, 1),
        ("SingleStream", ["warmup.queries=2"], 32, 1),
        ("MultiStream", ["run.samples_per_query=4"], 64, 4),
        ("Offline", [], 1, 64),
        ("SingleStream", ["warmup.queries=0"], 0, 1),
    ],
)
def test_warmup_has_the_shape_of_the_scenario(
    kind: str, overrides: list[str], queries: int, per_query: int
) -> None:
    plan = warmup_plan(scenario(f"scenario='{kind}'", *overrides), 50)
    assert plan.query_count == queries
    assert np.diff(plan.query_offsets).tolist() == [per_query] * queries


def test_warmup_without_rows_left() -> None:
    with pytest.raises(InputError, match=r"warmup\.samples: has no row left"):
        warmup_plan(scenario(), 40)
    plan = warmup_plan(scenario("warmup.samples='same'"), 40)
    assert set(plan.sample_index.tolist()) == set(range(40))
    assert warmup_plan(scenario("warmup.queries=0"), 40).query_count == 0
