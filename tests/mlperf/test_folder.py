"""Published LoadGen logs, as they are and damaged."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.mlperf.folder import judge_folder, read_folder

DATA = Path(__file__).parent / "data"
AUDITED = "loadgen-warning-logged"
STOPPED = "loadgen-early-stopping"

# Case: what LoadGen printed, what we say, what is found, and how many printed values are recomputed.
CASES: dict[str, tuple[str | None, str, set[str], int]] = {
    "01_v51_deepseek-r1_offline_b200": ("VALID", "VALID", set(), 9),
    "02_v51_deepseek-r1_server_b200": ("VALID", "VALID", set(), 10),
    "03_v51_llama31-405b_server_h200": ("VALID", "VALID", set(), 10),
    "04_v51_llama31-405b_interactive_b200": ("VALID", "VALID", set(), 10),
    "06_v51_llama31-8b_server_l40s_vllm": ("VALID", "VALID", set(), 10),
    "07_v51_llama31-8b_offline_l40s_vllm": ("VALID", "VALID", set(), 9),
    "08_v51_llama31-8b_interactive_b200": ("VALID", "VALID", set(), 10),
    "09_v51_llama31-8b-edge_singlestream_bmg": ("VALID", "VALID", set(), 11),
    "10_v51_llama31-8b-edge_offline_bmg": ("VALID", "VALID", set(), 9),
    "12_v51_mixtral_server_mi325x": ("VALID", "VALID", set(), 10),
    "14_v51_llama2-70b_interactive_mi325x": ("VALID", "VALID", set(), 10),
    "15_v41_llama2-70b_server_l40s": ("VALID", "VALID", set(), 5),
    "16_v41_llama2-70b_offline_l40s": ("VALID", "VALID", {AUDITED}, 5),
    "18_v41_gptj_server_emr": ("VALID", "VALID", set(), 4),
    "19_v41_retinanet_multistream_l4": ("VALID", "VALID", set(), 6),
    "21_v51_whisper_offline_vllm": ("VALID", "VALID", set(), 10),
    "32_INVALID_v51_llama31-70b_server_sglang_test06": (
        "INVALID",
        "INVALID",
        {STOPPED, "loadgen-performance-constraint", AUDITED},
        10,
    ),
    "34_INVALID_v51_resnet_multistream_test01": (
        "INVALID",
        "INVALID",
        {"loadgen-min-duration", "loadgen-error-logged", AUDITED},
        10,
    ),
    "40_QUIRK_v51_dir-multistream_log-singlestream": ("VALID", "VALID", set(), 10),
    "50_ACC_v51_llama2-70b_server_mi325x": (None, "VALID", {"accuracy-log-cut"}, 0),
    "60_v60_gpt-oss-120b_server": ("VALID", "VALID", set(), 10),
    "61_v60_gpt-oss-120b_offline": ("VALID", "VALID", set(), 9),
    "63_v60_deepseek-r1_interactive": ("VALID", "VALID", set(), 10),
    "70_INVALID_v60_gpt-oss_server_test07_b70": (
        "INVALID",
        "INVALID",
        {STOPPED, "loadgen-performance-constraint", AUDITED},
        11,
    ),
    "72_INVALID_v60_llama2_interactive_test06": ("INVALID", "INVALID", {STOPPED, AUDITED}, 10),
    "80_VALIDwithERRORS_v60_gpt-oss_server_test07": (
        "VALID",
        "INVALID",
        {"loadgen-error-logged", AUDITED},
        11,
    ),
}


def ids(result: dict[str, Any]) -> set[str]:
    return {finding["id"] for finding in result["findings"]}


def messages(result: dict[str, Any], name: str) -> str:
    return "\n".join(f["message"] for f in result["findings"] if f["id"] == name)


def test_every_case_is_listed() -> None:
    assert set(CASES) == {folder.name for folder in DATA.iterdir() if folder.is_dir()}


@pytest.mark.parametrize("case", list(CASES))
def test_published_logs(case: str) -> None:
    printed, ours, found, recomputed = CASES[case]
    result = read_folder(DATA / case)
    assert result["loadgen_verdict"] == printed
    assert result["verdict"] == ours
    assert ids(result) == found
    checks = result["metrics"]["recomputed"]
    assert all(checks.values()), checks
    assert len(checks) == recomputed
    json.dumps(result, allow_nan=False)


def test_the_reasons_of_an_invalid_run_have_numbers() -> None:
    result = read_folder(DATA / "70_INVALID_v60_gpt-oss_server_test07_b70")
    assert "p99 TTFT 935384.400 ms, bound 3000.000 ms" in messages(result, "loadgen-performance-constraint")
    assert "86640 more queries" in messages(result, STOPPED)
    run_short = read_folder(DATA / "34_INVALID_v51_resnet_multistream_test01")
    assert "600000 ms" in messages(run_short, "loadgen-min-duration")


def test_version_5_shuffled_the_whole_library() -> None:
    result = read_folder(DATA / "40_QUIRK_v51_dir-multistream_log-singlestream")
    assert result["metrics"]["recomputed"]["loaded_qsl_set"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copy = tmp_path / "run"
    shutil.copytree(DATA / "08_v51_llama31-8b_interactive_b200", copy)
    return copy


def damage(folder: Path, change: Callable[[bytes], bytes], name: str = "mlperf_log_detail.txt") -> Any:
    path = folder / name
    path.write_bytes(change(path.read_bytes()))
    return read_folder(folder)


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("result_validity", "value-contradicts-log"),
        ("early_stopping_met", "value-contradicts-log"),
        ("generated_query_count", "value-contradicts-log"),
        ("generated_query_duration", "value-contradicts-log"),
        ("result_scheduled_samples_per_sec", "value-contradicts-log"),
        ("result_completed_tokens_per_second", "value-contradicts-log"),
        ("result_90.00_percentile_latency_ns", "value-contradicts-log"),
        ("result_first_token_99.00_percentile_latency_ns", "value-contradicts-log"),
        ("result_mean_latency_ns", "value-contradicts-log"),
        ("num_errors", "value-contradicts-log"),
        ("effective_schedule_rng_seed", "value-contradicts-log"),
    ],
)
def test_a_changed_value_is_found(folder: Path, key: str, found: str) -> None:
    def change(content: bytes) -> bytes:
        lines = content.decode().split("\n")
        number = next(i for i, line in enumerate(lines) if f'"key": "{key}"' in line)
        entry = json.loads(lines[number].removeprefix(":::MLLOG "))
        old = entry["value"]
        flipped = {"VALID": "INVALID", True: False}.get(old)
        new = flipped if flipped is not None else old ^ 1 if key.endswith("seed") else old * 3 + 1
        lines[number] = lines[number].replace(f'"value": {json.dumps(old)}', f'"value": {json.dumps(new)}')
        return "\n".join(lines).encode()

    result = damage(folder, change)
    assert found in ids(result)
    assert result["verdict"] == "INVALID"


def test_a_truncated_log(folder: Path) -> None:
    cut = damage(folder, lambda content: content[: len(content) // 2])
    assert {"loadgen-result-missing", "log-line-unreadable"} <= ids(cut)
    assert cut["loadgen_verdict"] is None
    assert cut["verdict"] == "INVALID"


def test_a_log_cut_between_lines(folder: Path) -> None:
    cut = damage(folder, lambda content: b"".join(content.splitlines(keepends=True)[:60]))
    assert cut["loadgen_verdict"] is None
    assert cut["verdict"] == "INSUFFICIENT"


def test_a_log_that_is_not_utf_8(folder: Path) -> None:
    result = damage(folder, lambda content: content.replace(b"PerformanceOnly", b"Performance\xff", 1))
    assert "log-not-utf-8" in ids(result)
    assert result["loadgen_verdict"] == "VALID"


def test_a_byte_order_mark(folder: Path) -> None:
    result = damage(folder, lambda content: b"\xef\xbb\xbf" + content)
    assert ids(result) == {"log-byte-order-mark"}
    assert result["verdict"] == "VALID"


@pytest.mark.parametrize("text", [b"-nan", b"nan", b"inf", b"-inf"])
def test_property_44_a_log_with_nan(folder: Path, text: bytes) -> None:
    def change(content: bytes) -> bytes:
        head, key, tail = content.partition(b'"key": "result_scheduled_samples_per_sec", "value": ')
        return head + key + text + tail[tail.index(b",") :]

    result = damage(folder, change)
    assert ids(result) == {"log-not-a-number"}
    assert result["metrics"]["results"]["result_scheduled_samples_per_sec"] is None
    json.dumps(result, allow_nan=False)


def test_a_summary_that_says_something_else(folder: Path) -> None:
    result = damage(
        folder,
        lambda content: content.replace(b"Result is : VALID", b"Result is : INVALID"),
        "mlperf_log_summary.txt",
    )
    assert ids(result) == {"summary-contradicts-detail"}


@pytest.mark.parametrize(
    ("case", "comparable"),
    [
        ("08_v51_llama31-8b_interactive_b200", 56),
        ("34_INVALID_v51_resnet_multistream_test01", 32),
        ("61_v60_gpt-oss-120b_offline", 34),
    ],
)
def test_every_number_of_the_summary_is_compared(tmp_path: Path, case: str, comparable: int) -> None:
    copy = tmp_path / "run"
    shutil.copytree(DATA / case, copy)
    path = copy / "mlperf_log_summary.txt"
    lines = path.read_text().split("\n")
    known = ids(read_folder(copy))
    noticed = set()
    for number, line in enumerate(lines):
        label, separator, _ = line.partition(": ")
        if separator:
            path.write_text("\n".join([*lines[:number], f"{label}: 7", *lines[number + 1 :]]))
            noticed |= {label.strip()} if ids(read_folder(copy)) - known else set()
    # Completed tokens per second is printed twice in token Server runs; the first print is compared.
    assert len(noticed) == comparable


def test_a_missing_summary(folder: Path) -> None:
    (folder / "mlperf_log_summary.txt").unlink()
    assert ids(read_folder(folder)) == {"summary-missing"}


def test_a_folder_without_logs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no mlperf_log_detail\.txt"):
        read_folder(tmp_path)


def with_accuracy(folder: Path, text: str) -> dict[str, Any]:
    (folder / "mlperf_log_accuracy.json").write_text(text)
    return read_folder(folder)


ANSWER = '{ "seq_id" : 0, "qsl_idx" : 3, "data" : "0AFF", "token_count" : 2 }'


def test_property_45_accuracy_log_syntax(folder: Path) -> None:
    assert with_accuracy(folder, "[\n]\n")["metrics"]["accuracy_entries"] == 0
    assert with_accuracy(folder, f"[\n{ANSWER}\n]\n")["metrics"]["accuracy_entries"] == 1
    lower = with_accuracy(folder, "[\n" + ANSWER.replace("0AFF", "0aff") + "\n]\n")
    assert "accuracy-entry-damaged" in ids(lower)
    assert "accuracy-log-unreadable" in ids(with_accuracy(folder, '{"a": 1}'))


def test_property_39_offline_needs_no_first_token(tmp_path: Path) -> None:
    copy = tmp_path / "offline"
    shutil.copytree(DATA / "07_v51_llama31-8b_offline_l40s_vllm", copy)
    result = with_accuracy(copy, f"[\n{ANSWER}\n]\n")
    assert result["verdict"] == "VALID"
    assert result["metrics"]["accuracy_entries"] == 1
    assert result["metrics"]["results"]["result_tokens_per_second"] > 0
    assert not any("first_token" in key for key in result["metrics"]["results"])


def test_property_45_an_accuracy_run_answers_every_sample_once(tmp_path: Path) -> None:
    folder = tmp_path / "accuracy"
    shutil.copytree(DATA / "50_ACC_v51_llama2-70b_server_mi325x", folder)
    result = with_accuracy(folder, f"[\n{ANSWER},\n{ANSWER}\n]\n")
    assert "accuracy-sample-repeated" in ids(result)
    assert result["verdict"] == "INVALID"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    position=st.integers(0, 60_000),
    junk=st.one_of(
        st.binary(max_size=8), st.sampled_from([b"null", b"{}", b"[1]", b'"', b"-nan", b"\n:::MLLOG 3\n"])
    ),
    removed=st.integers(0, 4000),
    name=st.sampled_from(["mlperf_log_detail.txt", "mlperf_log_summary.txt", "mlperf_log_accuracy.json"]),
)
def test_any_damage_gives_findings_and_no_traceback(
    tmp_path: Path, position: int, junk: bytes, removed: int, name: str
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(DATA / "50_ACC_v51_llama2-70b_server_mi325x", copy, dirs_exist_ok=True)
    if name == "mlperf_log_detail.txt":
        shutil.copy(DATA / "34_INVALID_v51_resnet_multistream_test01" / name, copy / name)
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:position] + junk + content[position + removed :])
    result = read_folder(copy)
    assert result["verdict"] in ("VALID", "INVALID", "INSUFFICIENT")
    json.dumps(result, allow_nan=False)


def _cut(content: bytes, a: int, b: int) -> bytes:
    return content[: a % (len(content) + 1)]


def _flip(content: bytes, a: int, b: int) -> bytes:
    changed = bytearray(content)
    for step in range(8):
        changed[(a * (step + 1) + step) % len(changed)] ^= 1 << (b + step) % 8
    return bytes(changed)


def _repeat_lines(content: bytes, a: int, b: int) -> bytes:
    lines = content.split(b"\n")
    first = a % len(lines)
    part = lines[first : first + 1 + b % 50]
    return b"\n".join([*lines[:first], *part, *part, *lines[first:]])


def _drop_lines(content: bytes, a: int, b: int) -> bytes:
    lines = content.split(b"\n")
    first = a % len(lines)
    return b"\n".join([*lines[:first], *lines[first + 1 + b % 50 :]])


def _other_digit(content: bytes, a: int, b: int) -> bytes:
    places = [match.start() for match in re.finditer(rb"[0-9]", content)] or [0]
    place = places[a % len(places)]
    return content[:place] + b"%d" % (b % 10**12) + content[place + 1 :]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    case=st.sampled_from(sorted(CASES)),
    log=st.sampled_from(["mlperf_log_detail.txt", "mlperf_log_detail.txt", "mlperf_log_summary.txt"]),
    mutate=st.sampled_from([_cut, _flip, _repeat_lines, _drop_lines, _other_digit]),
    a=st.integers(0, 10**6),
    b=st.integers(0, 10**12),
)
def test_mutated_logs_give_findings_and_no_traceback(
    tmp_path: Path, case: str, log: str, mutate: Callable[[bytes, int, int], bytes], a: int, b: int
) -> None:
    copy = tmp_path / "run"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(DATA / case, copy)
    (copy / log).write_bytes(mutate((copy / log).read_bytes(), a, b))
    result = read_folder(copy)
    assert result["verdict"] in ("VALID", "INVALID", "INSUFFICIENT")
    json.dumps(result, allow_nan=False, ensure_ascii=False).encode()
    judged = judge_folder(copy, "mlperf-inference-6.1", benchmark="llama2-70b")
    json.dumps(judged, allow_nan=False, ensure_ascii=False).encode()


WHOLE = b':::MLLOG {"key": "%s", "value": %s, "time_ms": 1.0, "metadata": {"is_error": false}}\n'


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "loadgen-result-missing"),
        (b"\n" * 1000, "loadgen-result-missing"),
        (b"\xef\xbb\xbf", "log-byte-order-mark"),
        (b"\x00" * 5000, "log-line-unreadable"),
        (b"\xff\xfe:\x00:\x00", "log-not-utf-8"),
        (b":::MLLOG " + b"[" * 200_000, "log-line-unreadable"),
        (b":::MLLOG " + b"9" * 1_000_000, "log-line-unreadable"),
        (WHOLE % (b"result_x", b"1e999"), "log-line-unreadable"),
        (WHOLE % (b"result_x", b"NaN"), "log-line-unreadable"),
        (WHOLE % (b"result_x", b"-nan"), "log-not-a-number"),
        (WHOLE % (b"sut_name", b'"\\ud800"'), "log-line-unreadable"),
        (WHOLE % (b"effective_target_qps", b"9" * 4000), "log-value-unusable"),
        (WHOLE % (b"effective_target_latency_percentile", b"0.99999999999"), "loadgen-result-missing"),
        (WHOLE % (b"sut_name", b'"' + b"x" * 5_000_000 + b'"'), "loadgen-result-missing"),
    ],
    ids=range(14),
)
def test_strange_detail_logs(tmp_path: Path, content: bytes, found: str) -> None:
    (tmp_path / "mlperf_log_detail.txt").write_bytes(content)
    result = read_folder(tmp_path)
    assert found in ids(result)
    assert result["verdict"] != "VALID"
    json.dumps(result, allow_nan=False, ensure_ascii=False).encode()


def test_a_percentile_that_rounds_to_100_tests_nothing(folder: Path) -> None:
    path = folder / "mlperf_log_detail.txt"
    text = path.read_text()
    key = '"key": "effective_target_latency_percentile", "value": '
    path.write_text(re.sub(f"({re.escape(key)})[0-9.]+", r"\g<1>0.9999999999", text))
    assert "early_stopping_met" not in read_folder(folder)["metrics"]["recomputed"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    key=st.sampled_from(
        [
            "effective_scenario",
            "effective_target_qps",
            "effective_samples_per_query",
            "effective_performance_sample_count",
            "effective_min_duration_ms",
            "effective_target_latency_percentile",
            "requested_multi_stream_expected_latency_ns",
            "loaded_qsl_set",
            "result_query_count",
            "result_mean_latency_ns",
            "result_99.00_percentile_latency_ns",
            "early_stopping_result",
            "loadgen_version",
        ]
    ),
    value=st.sampled_from([None, -1, 0, 1e300, "", "Server", [], [0], {}, True, 2**70]),
)
def test_any_value_gives_findings_and_no_traceback(tmp_path: Path, key: str, value: Any) -> None:
    copy = tmp_path / "run"
    shutil.copytree(DATA / "34_INVALID_v51_resnet_multistream_test01", copy, dirs_exist_ok=True)
    path = copy / "mlperf_log_detail.txt"
    lines = path.read_text().split("\n")
    number = next(i for i, line in enumerate(lines) if f'"key": "{key}"' in line)
    entry = json.loads(lines[number].removeprefix(":::MLLOG "))
    lines[number] = ":::MLLOG " + json.dumps(entry | {"value": value})
    path.write_text("\n".join(lines))
    assert read_folder(copy)["verdict"] in ("VALID", "INVALID", "INSUFFICIENT")
