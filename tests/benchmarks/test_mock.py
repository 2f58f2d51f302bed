"""The mock server answers and stamps as it says; without a compiler nothing is run."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from unittest.mock import patch
from urllib.request import urlopen

import pytest
from benchmarks import http, mock, pacing
from benchmarks.mock import CHUNKS, Shape, answer, build, mock_server

from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read

SHAPES: tuple[Shape, ...] = ("json", "stream", "stream-by-chunk")


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_is_a_complete_response(shape: Shape) -> None:
    parts = answer(shape)
    assert len(parts) == (CHUNKS + 1 if shape == "stream-by-chunk" else 1)
    reads = [Read(number, part) for number, part in enumerate(parts)]
    response = dialect("openai-chat").decode(reads, closed=False, stream=shape != "json")
    assert (response.failure, response.finish_reason, response.flags) == (None, "stop", ())
    assert len(response.events) == (1 if shape == "json" else CHUNKS + 1)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.skipif(mock.cores_missing() is not None, reason="needs two cores")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_server_stamps_every_request_on_the_clock_of_the_driver(shape: Shape) -> None:
    program = build()
    assert isinstance(program, Path)
    with mock_server(program, shape) as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        with urlopen(f"{url}/models") as listed:
            assert json.load(listed)["data"] == [{"id": "mock-1"}]
        before_ns = time.monotonic_ns()
        for size in (0, 5000, 40_000):
            with urlopen(f"{url}/chat/completions", data=b"x" * size) as answered:
                assert answered.status == 200
        after_ns = time.monotonic_ns()
        assert server.requests == 3
        stamps = server.arrivals_ns().tolist()
        assert len(stamps) == 3
        assert before_ns <= stamps[0] <= stamps[2] <= after_ns
        server.forget()
        assert server.requests == 0


def test_without_a_compiler_every_row_is_not_run() -> None:
    with patch.object(http, "build", return_value="no compiler"):
        over_http = http.run(True)
    with patch.object(pacing, "build", return_value="no compiler"):
        paced = pacing.run(True)
    assert over_http
    assert paced
    assert {row.met for row in [*over_http, *paced]} == {None}
    assert all(row.note for row in [*over_http, *paced])


def test_a_server_that_does_not_compile_is_a_reason(tmp_path: Path) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "mock_server.c:1: error")
    with (
        patch.object(mock, "_HERE", tmp_path),
        patch.object(shutil, "which", return_value="/usr/bin/gcc"),
        patch.object(subprocess, "run", return_value=failed),
    ):
        (tmp_path / "mock_server.c").write_text("")
        assert "does not compile: mock_server.c:1: error" in str(build())
