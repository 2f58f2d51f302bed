"""Scenario files: defaults, digest, overrides, and what is refused with which words."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.scenario import model
from fairmark.scenario.load import NAMED_SEEDS, load_scenario, parse_scenario
from fairmark.scenario.toml import shipped_scenarios

MINIMAL = b"""\
schema = "fairmark/scenario/1"
name = "tiny"
scenario = "Server"
[model]
name = "m"
[samples]
source = "fairmark:gsm8k-test"
prompt = "question"
[settings]
target_qps = 1.5
"""


def parse(text: bytes = MINIMAL, *overrides: str) -> model.Scenario:
    return parse_scenario(text, source="tiny.toml", overrides=overrides)


def refusal(text: bytes = MINIMAL, *overrides: str) -> InputError:
    with pytest.raises(InputError) as caught:
        parse(text, *overrides)
    return caught.value


def test_defaults_in_the_schema_and_in_the_dataclasses_are_the_same() -> None:
    scenario = parse()
    for part, kind in (
        (scenario.generation, model.Generation),
        (scenario.arrivals, model.Arrivals),
        (scenario.warmup, model.Warmup),
        (scenario.run, model.Run),
        (scenario.constraints, model.Constraints),
    ):
        assert part == kind()
    assert scenario.settings == model.Settings(target_qps=1.5)
    assert scenario.benchmark == "tiny"


def test_official_seeds_are_the_default_and_survive_as_decimal_strings() -> None:
    scenario = parse()
    assert scenario.seeds == model.Seeds(2085463073848966840, 2747215439041700203, 16159082839903944936)
    assert scenario.document["seeds"] == dict(NAMED_SEEDS["mlperf-6.1"])
    assert json.loads(json.dumps(scenario.document)) == scenario.document


def test_settings_never_change_the_digest_and_everything_else_does() -> None:
    base = parse()
    assert parse(MINIMAL, "settings.target_qps=9").digest == base.digest
    assert parse(MINIMAL, "settings.workers=4", "settings.min_query_count=500").digest == base.digest
    for other in ("run.min_query_count=64", "model.name=n", "warmup.queries=3", "constraints.ttft_ms=5"):
        changed = parse(MINIMAL, other)
        assert changed.digest != base.digest
        assert changed.overrides == (other,)


@given(st.sampled_from([("4", "4.0"), ("1e2", "100"), ("0.5", "5e-1")]))
def test_equal_numbers_written_differently_have_one_digest(pair: tuple[str, str]) -> None:
    first, second = (parse(MINIMAL, f"constraints.ttft_ms={text}") for text in pair)
    assert first.digest == second.digest


def test_spelling_out_a_default_does_not_change_the_digest() -> None:
    assert parse(MINIMAL, "run.min_query_count=100", "warmup.samples=disjoint").digest == parse().digest


def test_the_percentile_follows_loadgens_default_unless_given() -> None:
    assert parse().percentile == 0.99
    assert parse(MINIMAL, "scenario=SingleStream").percentile == 90 * 0.01
    assert parse(MINIMAL, "constraints.percentile=99.9").percentile == 99.9 * 0.01


@pytest.mark.parametrize(
    ("override", "field", "accepted"),
    [
        ("settings.target_qps=-1", "settings.target_qps", "a number > 0"),
        ("run.min_query_count=0", "run.min_query_count", "an integer >= 1"),
        ("run.min_query_count=true", "run.min_query_count", "an integer >= 1"),
        ("constraints.percentile=100", "constraints.percentile", "a number > 0 and < 100"),
        ("settings.target_qps=nan", "settings.target_qps", "a finite number"),
        ("settings.target_qps=inf", "settings.target_qps", "a finite number"),
        ("scenario=Foo", "scenario", "SingleStream, MultiStream, Server, Offline, Concurrency"),
        ("seeds={qsl=1}", "seeds.sample_index", "an integer from 0 to 2^64 - 1"),
        ("seeds={qsl=1,sample_index=-2,schedule=3}", "seeds.sample_index", "an integer from 0 to 2^64 - 1"),
        ("samples.sha256=abc", "samples.sha256", "64 lower-case hexadecimal digits"),
        ("settings.workers=1.5", "settings.workers", "an integer >= 1 and <= 1024"),
        ("run.max_duration_s=2020-01-01", "run.max_duration_s", "JSON's types"),
    ],
)
def test_a_value_out_of_range_names_option_field_value_and_what_is_accepted(
    override: str, field: str, accepted: str
) -> None:
    error = refusal(MINIMAL, override)
    assert (error.source, error.field, error.accepted) == ("--set", field, accepted)
    assert error.exit_code == 2


def test_an_unknown_field_is_refused_with_the_nearest_known_one() -> None:
    error = refusal(MINIMAL, "run.minquery_count=3")
    assert error.field == "run.minquery_count"
    assert "did you mean min_query_count?" in str(error)


def test_a_missing_table_and_a_missing_field_are_named() -> None:
    assert refusal(MINIMAL.replace(b'[model]\nname = "m"\n', b"")).field == "model"
    assert refusal(MINIMAL.replace(b'prompt = "question"\n', b"")).field == "samples.prompt"


def test_errors_in_the_file_name_the_line() -> None:
    assert refusal(MINIMAL.replace(b"1.5", b"-1.5")).line == 10
    assert str(refusal(MINIMAL.replace(b"1.5", b"-1.5"))).startswith("tiny.toml:10: settings.target_qps: ")


@pytest.mark.parametrize(
    ("text", "line"),
    [(b"name = \n", 1), (b'a = 1\nb = "x\n', 2), (b"\xff\xfe", 1), (b"a = 1\na = 2\n", 2)],
)
def test_malformed_toml_names_the_line(text: bytes, line: int) -> None:
    error = refusal(text)
    assert error.source == "tiny.toml"
    assert error.line == line


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        (["scenario=Concurrency"], "settings.concurrency"),
        (["settings.concurrency=4"], "settings.concurrency"),
        (["arrivals.process=gamma"], "arrivals.cv"),
        (["arrivals.cv=2"], "arrivals.cv"),
        (["scenario=Offline", "arrivals.process=constant"], "arrivals.process"),
        (["arrivals.think_time_s=1"], "arrivals.think_time_s"),
        (["scenario=SingleStream", "settings.workers=2"], "settings.workers"),
        (["run.min_duration_s=60", "settings.min_duration_s=10"], "settings.min_duration_s"),
        (["settings.min_query_count=10"], "settings.min_query_count"),
        (["run.max_duration_s=1", "run.min_duration_s=2"], "run.max_duration_s"),
        (["run.max_query_count=5"], "run.max_query_count"),
        (["scenario=Offline", "run.max_outstanding_queries=5"], "run.max_outstanding_queries"),
        (["run.max_outstanding_queries=5", "settings.workers=2"], "settings.workers"),
        (["arrivals.sha256=" + "0" * 64], "arrivals.sha256"),
        (["warmup.max_queries=1"], "warmup.max_queries"),
        (["run.same_index=3"], "run.same_index"),
        (["run.sampling=same", "run.same_index=3", "samples.performance_sample_count=2"], "run.same_index"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(overrides: list[str], field: str) -> None:
    assert refusal(MINIMAL, *overrides).field == field


def test_a_server_without_a_rate_is_refused() -> None:
    assert refusal(MINIMAL.replace(b"target_qps = 1.5", b"")).field == "settings.target_qps"


@pytest.mark.parametrize("assignment", ["a.b", "=1", "a..b=1"])
def test_an_unreadable_assignment_is_refused(assignment: str) -> None:
    error = refusal(MINIMAL, assignment)
    assert error.source == "--set"
    assert error.value == assignment


def test_an_unknown_scenario_lists_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_scenario(tmp_path / "none.toml")
    for name in shipped_scenarios():
        assert name in str(caught.value)


@pytest.mark.parametrize("name", sorted(shipped_scenarios()))
def test_every_shipped_scenario_loads_and_is_pinned(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.samples.sha256 is not None


def test_scenarios_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse().name = "other"  # type: ignore[misc]
