"""Bad input: one clear line that names what is wrong, exit 2, and nothing left behind."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Fairmark = Callable[..., Any]


def refused(result: Any, *words: str, code: int = 2) -> None:
    assert result.code == code, result
    line = result.err.strip().splitlines()[-1]
    assert line.startswith("fairmark: error: ")
    for word in words:
        assert word in line


def left(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()} - {"questions.jsonl", "tiny.toml"}


SIM = ("--sut", "sim-http")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "none.toml", *SIM], ["none.toml", "smollm2-gsm8k-server"]),
        (["run", "tiny.toml", "--sut", "nope"], ["--sut", "nope", "http, llamacpp, sim-http"]),
        (["run", "tiny.toml", *SIM, "-o", "speed=3"], ["speed", "is not an option of sim-http"]),
        (["run", "tiny.toml", *SIM, "-o", "ttft_ms=fast"], ["ttft_ms", "'fast'", "float"]),
        (["run", "tiny.toml", "--sut", "http"], ["base_url", "is required"]),
        (["run", "tiny.toml", "--sut", "http", "-o", "base_url=nonsense"], ["base_url", "nonsense"]),
        (["run", "tiny.toml", *SIM, "--set", "settings.target_qps=-1"], ["settings.target_qps", "-1", "> 0"]),
        (
            ["run", "tiny.toml", *SIM, "--set", "samples.sha256=" + "0" * 64],
            ["samples.sha256", "0" * 64, "sha256 = "],
        ),
        (["run", "tiny.toml", *SIM, "--set", "samples.source=gone.jsonl"], ["samples.source", "gone.jsonl"]),
        (["run", "tiny.toml", *SIM, "--set", "samples.prompt=answer"], ["answer", "question"]),
        (
            ["run", "tiny.toml", *SIM, "--set", "samples.performance_sample_count=99"],
            ["performance_sample_count", "99"],
        ),
        (["run", "tiny.toml", *SIM, "--ruleset", "nope"], ["nope", "fairmark-open-1"]),
        (["plan", "tiny.toml", "--set", "run.min_query_count=0"], ["run.min_query_count", "0", ">= 1"]),
        (["check", "nowhere"], ["nowhere"]),
        (["report", "nowhere"], ["nowhere"]),
        (["audit", "nowhere"], ["nowhere"]),
        (["bundle", "nowhere", "--submitter", "a", "--division", "open"], ["nowhere"]),
        (["samples", "show", "fairmark:nope", "--prompt", "q"], ["fairmark:nope", "fairmark:gsm8k-test"]),
        (["sut", "describe", "nope"], ["nope", "llamacpp"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_one_clear_line_exit_2_and_nothing_left(
    fairmark: Fairmark, tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    refused(fairmark(*arguments), *words)
    assert left(tmp_path) <= {"attempts.jsonl"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 'fairmark/scenario/1'\nname = \n", ["broken.toml:2", "malformed TOML"]),
        ("name = 'x'\n", ["broken.toml", "schema", "is missing"]),
    ],
)
def test_a_broken_scenario_file_names_file_and_line(
    fairmark: Fairmark, tmp_path: Path, text: str, words: list[str]
) -> None:
    (tmp_path / "broken.toml").write_text(text)
    refused(fairmark("run", "broken.toml", *SIM), *words)


def test_an_empty_data_set_is_refused(fairmark: Fairmark, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    refused(fairmark("run", "tiny.toml", *SIM, "--set", "samples.source=empty.jsonl"), "empty.jsonl")


def test_an_output_folder_that_cannot_be_made_is_refused(fairmark: Fairmark, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    refused(fairmark("run", "tiny.toml", *SIM, "--out", "file/run"), "--out", "file/run")
    assert (tmp_path / "file").read_text() == "in the way"


def test_an_output_folder_that_is_a_file_is_refused(fairmark: Fairmark, tmp_path: Path) -> None:
    refused(fairmark("run", "tiny.toml", *SIM, "--out", "tiny.toml"), "--out", "tiny.toml", "a new folder")


def test_an_output_folder_that_holds_something_is_refused(fairmark: Fairmark, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    refused(fairmark("run", "tiny.toml", *SIM, "--out", "full"), "--out", "full")
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["mine.txt"]


def test_a_closed_port_is_exit_3_and_leaves_no_run(fairmark: Fairmark, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    refused(fairmark("run", "tiny.toml", "--sut", "http", "-o", f"base_url={url}"), "refused", code=3)
    assert not list(tmp_path.glob("runs/*"))


def test_a_server_that_refuses_the_first_request_is_exit_3(fairmark: Fairmark, tmp_path: Path) -> None:
    refused(fairmark("run", "tiny.toml", *SIM, "-o", "faults=status-401"), "HTTP 401", code=3)
    assert not list(tmp_path.glob("runs/*"))


def test_a_usage_error_is_exit_2(fairmark: Fairmark) -> None:
    result = fairmark("run", "tiny.toml")
    assert result.code == 2
    assert "--sut" in result.err
