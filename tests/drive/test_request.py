"""Request heads and stored bodies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairmark.drive.http.request import Bodies, request_head, write_bodies
from fairmark.errors import InputError
from fairmark.sut.api import Endpoint


def test_a_head_names_host_and_path_and_refuses_compression() -> None:
    head = request_head(Endpoint("example.test", 8080, "/v1/x?y=1", headers={"X-A": "b"}), "agent/1")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x?y=1 HTTP/1.1"
    assert lines[-1] == ""
    assert {"Host: example.test:8080", "Accept-Encoding: identity", "User-Agent: agent/1", "X-A: b"} <= set(
        lines
    )


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        (Endpoint("h", 80, "/"), "h"),
        (Endpoint("h", 443, "/", tls=True), "h"),
        (Endpoint("h", 443, "/"), "h:443"),
        (Endpoint("::1", 8000, "/"), "[::1]:8000"),
    ],
)
def test_host_has_its_port_unless_it_is_the_default(endpoint: Endpoint, host: str) -> None:
    assert f"Host: {host}\r\n".encode() in request_head(endpoint, "a")


@pytest.mark.parametrize(
    "headers",
    [{"X": "a\r\nY: b"}, {"X\n": "a"}, {"Content-Length": "3"}, {"accept-encoding": "gzip"}, {"X": "ü"}],
)
def test_headers_that_would_change_the_request_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InputError, match="header"):
        request_head(Endpoint("h", 80, "/", headers=headers), "a")


def test_a_refused_secret_is_not_shown() -> None:
    endpoint = Endpoint("h", 80, "/", secret_headers={"Authorization": "Bearer s3cret\n"})
    with pytest.raises(InputError) as caught:
        request_head(endpoint, "a")
    assert "s3cret" not in str(caught.value)
    assert "Authorization" in str(caught.value)


def test_a_path_with_a_space_is_refused() -> None:
    with pytest.raises(InputError, match="request path"):
        request_head(Endpoint("h", 80, "/a b"), "a")


def test_bodies_are_found_by_sample(tmp_path: Path) -> None:
    write_bodies(tmp_path, {7: b"seven", 3: b"", 40: b"x" * 300})
    bodies = Bodies(tmp_path)
    numbers = bodies.numbers(np.array([40, 3, 7, 40]))
    assert [bytes(bodies[n]) for n in numbers] == [
        b"Content-Length: 300\r\n\r\n" + b"x" * 300,
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 5\r\n\r\nseven",
        b"Content-Length: 300\r\n\r\n" + b"x" * 300,
    ]
