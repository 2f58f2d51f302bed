"""The server that calibration measures against answers every request, however its bytes arrive."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

BODY = b'{"a":1}'
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


@pytest.fixture
def port() -> Iterator[int]:
    command = [sys.executable, "-m", "fairmark.drive.null_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.stdin.close()
    assert server.returncode == 0


@pytest.mark.parametrize(
    "sends",
    [
        [REQUEST] * 3,
        [REQUEST * 3],
        [REQUEST[:10], REQUEST[10:] + REQUEST, REQUEST[:-1], REQUEST[-1:]],
        [REQUEST, REQUEST[:50], REQUEST[50:] + REQUEST],
    ],
)
def test_every_request_is_answered_once(port: int, sends: list[bytes]) -> None:
    requests = b"".join(sends).count(b"POST")
    received = b""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for data in sends:
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            received += part
    assert received.count(b"HTTP/1.1 200 OK\r\n") == requests
    assert received.endswith(b"}")
