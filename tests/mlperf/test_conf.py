"""LoadGen configuration files. Numbers in names are the properties of the LoadGen reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.mlperf.conf import Conf, builtin_conf, parse_conf, read_conf, resolve
from fairmark.mlperf.scenario import inexpressible, scenario_tables


def conf(*lines: str) -> Conf:
    return parse_conf("\n".join(lines).encode(), source="user.conf")


@pytest.mark.parametrize(
    ("model", "ttft_ms", "tpot_ms"),
    [
        ("gpt-oss-120b-interactive", 2000, 15),
        ("llama2-70b-interactive", 450, 40),
        ("deepseek-r1", 2000, 80),
        ("llama3_1-405b", 6000, 175),
    ],
)
def test_property_42_built_in_bounds(model: str, ttft_ms: int, tpot_ms: int) -> None:
    values = resolve(model, "Server").values
    assert values["use_token_latencies"]
    assert values["ttft_latency"] == ttft_ms * 1_000_000
    assert values["tpot_latency"] == tpot_ms * 1_000_000


def test_property_47_audit_reads_wildcard_models_only() -> None:
    audit = conf("*.*.min_query_count = 7", "*.Server.max_query_count = 9", "bert.*.min_query_count = 100")
    resolved = resolve("bert", "Server", audit=audit)
    assert resolved.values["min_query_count"] == 7
    assert resolved.values["max_query_count"] == 9
    assert any("bert.*.min_query_count" in remark for remark in resolved.remarks)


@pytest.mark.parametrize("strongest", range(4))
def test_property_48_precedence(strongest: int) -> None:
    keys = [
        "m.Server.min_query_count",
        "*.Server.min_query_count",
        "m.*.min_query_count",
        "*.*.min_query_count",
    ]
    lines = [f"{key} = {rank}" for rank, key in enumerate(keys)][strongest:]
    assert resolve("m", "Server", user=conf(*reversed(lines))).values["min_query_count"] == strongest


def test_property_48_units() -> None:
    user = conf("*.Server.target_latency_percentile = 99.9", "*.Server.target_latency = 15")
    values = resolve("m", "Server", user=user).values
    assert values["server_target_latency_percentile"] == 99.9 * 0.01
    assert values["server_target_latency_ns"] == 15_000_000


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("*.Server.target_qps = 10 # ten", "not a number"),
        ("*.Server.target_qps = ten", "not a number"),
        ("*.Server.target_qps: 10", "key = value"),
        ("*.Server.target_qps=10 20", "key = value"),
        ("#a comment without a space", "key = value"),
    ],
)
def test_property_48_lines_that_loadgen_rejects(line: str, problem: str) -> None:
    with pytest.raises(InputError, match=rf"user\.conf:2: .*{problem}"):
        conf("# fine", line)


def test_property_49_seeds_are_fixed() -> None:
    keys = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed", "accuracy_log_probability")
    user = conf(*(f"*.*.{key} = 5" for key in keys))
    resolved = resolve("m", "Server", user=user)
    assert resolved.values == resolve("m", "Server").values
    assert len(resolved.remarks) == 4


def test_layers_override_each_other() -> None:
    user = conf("*.*.min_duration = 1000", "*.*.min_query_count = 5")
    audit = conf("*.*.min_duration = 0")
    resolved = resolve("m", "Server", user=user, audit=audit)
    assert resolved.values["min_duration_ms"] == 0
    assert resolved.values["min_query_count"] == 5
    assert resolved.origin["min_query_count"] == "user.conf:2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x10", 16),
        ("010", 8),
        ("08", 0),
        ("0.5", 0),
        ("1e3", 1),
        ("-1", 2**64 - 1),
        ("9" * 30, 2**64 - 1),
        ("9" * 5000, 2**64 - 1),
        ("0x" + "0" * 5000 + "7", 7),
    ],
)
def test_whole_numbers_as_strtoull_reads_them(text: str, value: int) -> None:
    resolved = resolve("m", "Server", user=conf(f"*.*.min_query_count = {text}"))
    assert resolved.values["min_query_count"] == value
    exact = text.lstrip("-").isdigit() and text != "08"
    assert bool(resolved.remarks) is not (exact or text.startswith("0x"))


def test_what_is_passed_over_is_said() -> None:
    resolved = resolve("m", "Server", user=conf("*.Server.target_duration = 5", "*.*.min_query_count ="))
    assert any("target_duration is not a key" in remark for remark in resolved.remarks)
    assert any("has no value" in remark for remark in resolved.remarks)


def test_last_line_wins() -> None:
    user = conf("*.*.min_query_count = 5", "*.*.min_query_count = 6")
    assert resolve("m", "Server", user=user).values["min_query_count"] == 6


def test_mode_out_of_range() -> None:
    with pytest.raises(InputError, match=r"user\.conf:1: mode: is no mode"):
        resolve("m", "Server", user=conf("*.*.mode = 4"))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_conf(tmp_path / "missing.conf")
    led = tmp_path / "bom.conf"
    led.write_bytes(b"\xef\xbb\xbf*.*.mode = 2\n")
    with pytest.raises(InputError, match="byte order mark"):
        read_conf(led)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_conf_or_an_input_error(text: bytes) -> None:
    lines = text.count(b"\n") + 1
    try:
        named = [entry.line for entry in parse_conf(text, source="x").entries.values()]
    except InputError as error:
        named = [error.line or 0]
    assert all(1 <= line <= lines for line in named)


def test_built_in_is_clean() -> None:
    assert builtin_conf().remarks == ()
    assert resolve("resnet50", "MultiStream").values["min_query_count"] == 662


def test_token_server_as_a_scenario() -> None:
    tables = scenario_tables(resolve("llama2-70b", "Server", user=conf("*.Server.target_qps = 12.5")))
    assert tables["constraints"] == {"percentile": 99.0, "ttft_ms": 2000.0, "tpot_ms": 200.0}
    assert tables["run"] == {"min_duration_s": 600.0, "min_query_count": 100, "sampling": "equal"}
    assert tables["samples"] == {"performance_sample_count": 24576}
    assert tables["settings"] == {"target_qps": 12.5}
    assert tables["seeds"]["qsl"] == 2085463073848966840


def test_edge_scenarios_as_scenarios() -> None:
    multi = scenario_tables(resolve("retinanet", "MultiStream"))
    assert multi["run"]["samples_per_query"] == 8
    assert multi["run"]["min_query_count"] == 662
    assert multi["settings"] == {"target_qps": 1e9 / 528e6}
    offline = scenario_tables(resolve("bert", "Offline"))
    assert offline["constraints"] == {}
    assert offline["run"]["min_query_count"] == 10833


@pytest.mark.parametrize(
    ("scenario", "line", "field"),
    [
        ("Server", "*.Server.target_qps = nan", "server_target_qps"),
        ("Server", "*.Server.target_qps = inf", "server_target_qps"),
        ("Server", "*.Server.target_qps = 0", "server_target_qps"),
        ("Server", "*.Server.target_qps = -3", "server_target_qps"),
        ("Server", "*.Server.target_latency = 0", "server_target_latency_ns"),
        ("Server", "*.Server.target_latency_percentile = 100", "server_target_latency_percentile"),
        ("Server", "*.Server.target_latency_percentile = -1", "server_target_latency_percentile"),
        ("Server", "*.*.min_query_count = 0", "min_query_count"),
        ("Server", "*.*.min_query_count = -1", "min_query_count"),
        ("Server", "*.*.min_duration = -1", "min_duration_ms"),
        ("Server", "*.*.max_query_count = 99", "max_query_count"),
        ("Server", "*.*.max_duration = 1", "max_duration_ms"),
        ("SingleStream", "*.SingleStream.target_latency = 0", "single_stream_expected_latency_ns"),
        ("SingleStream", "*.SingleStream.target_latency = nan", "single_stream_expected_latency_ns"),
        ("MultiStream", "*.MultiStream.samples_per_query = 0", "multi_stream_samples_per_query"),
        ("Offline", "*.Offline.target_qps = 1e300", "offline_expected_qps"),
    ],
)
def test_impossible_values_are_refused_with_their_line(scenario: str, line: str, field: str) -> None:
    with pytest.raises(InputError, match=rf"^user\.conf:2: {field}: is impossible"):
        scenario_tables(resolve("m", scenario, user=conf("# mine", line)))


def test_the_limit_on_outstanding_queries_is_servers_alone() -> None:
    user = conf("*.Server.max_async_queries = 7")
    assert scenario_tables(resolve("m", "Server", user=user))["run"]["max_outstanding_queries"] == 7
    assert "max_outstanding_queries" not in scenario_tables(resolve("m", "Offline", user=user))["run"]


def test_what_a_scenario_cannot_say_is_said() -> None:
    user = conf("*.Server.coalesce_queries = 1", "*.*.mode = 3")
    told = inexpressible(resolve("m", "Server", user=user))
    assert [sentence.partition(" ")[0] for sentence in told] == ["user.conf:1:", "user.conf:2:"]
    assert len(inexpressible(resolve("m", "SingleStream", user=user))) == 1


def test_two_kinds_of_sampling() -> None:
    user = conf("*.*.performance_issue_unique = 1", "*.*.performance_issue_same = 1")
    with pytest.raises(InputError, match="exclude each other"):
        scenario_tables(resolve("m", "Server", user=user))
