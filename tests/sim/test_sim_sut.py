"""The plugin: it starts, describes itself as a test instrument, and stops."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path

import pytest

from fairmark.errors import InputError, SutError
from fairmark.sut.options import parse_options
from fairmark.sut.plugins import load_sut
from fairmark_sim.sut import SimHttpSUT


def make(*assignments: str) -> SimHttpSUT:
    return SimHttpSUT(parse_options(SimHttpSUT.Options, assignments, sut="sim-http"))


def test_it_is_installed_under_its_name() -> None:
    assert load_sut("sim-http") is SimHttpSUT


@pytest.mark.parametrize(
    ("api", "dialect", "path"),
    [
        ("chat", "openai-chat", "/v1/chat/completions"),
        ("completions", "openai-completions", "/v1/completions"),
    ],
)
def test_it_serves_between_open_and_close(api: str, dialect: str, path: str) -> None:
    sut = make(f"api={api}", "output_tokens=2", "faults=no-usage,crlf@every=2")
    try:
        sut.open()
        (endpoint,) = sut.endpoints()
        assert (sut.dialect, endpoint.path, sut.model) == (dialect, path, "sim")
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=10)
        connection.request("POST", path, '{"prompt": "a", "messages": [{"content": "a"}]}')
        body = connection.getresponse().read()
        assert b'"choices"' in body
        assert b'"usage"' not in body
        connection.close()
    finally:
        sut.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((endpoint.host, endpoint.port), timeout=10)
    sut.close()


def test_it_says_that_it_is_a_test_instrument_and_what_the_truth_is() -> None:
    claims = make("ttft_ms=5", "tpot_ms=1", "servers=3", "faults=stall@rate=0.1").describe()
    assert claims["test_instrument"] is True
    assert claims["simulated"] == {
        "ttft_ms": 5.0,
        "ttft_cv": 0.0,
        "tpot_ms": 1.0,
        "tpot_cv": 0.0,
        "servers": 3,
        "faults": ["stall@rate=0.1"],
    }


@pytest.mark.parametrize(
    "assignment", ["faults=nonsense", "ttft_ms=-1", "ttft_ms=nan", "servers=0", "output_tokens=0"]
)
def test_unusable_options_are_refused_before_anything_starts(assignment: str) -> None:
    with pytest.raises(InputError):
        make(assignment)


def test_a_server_that_does_not_start_is_one_line_with_its_own_words(tmp_path: Path) -> None:
    sut = make(f"answers={tmp_path / 'missing.jsonl'}")
    sut.logs = tmp_path
    with pytest.raises(SutError, match=r"did not start.*missing\.jsonl"):
        sut.open()
    sut.close()
