"""The simulated server as a process, and the requests that tests make."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairmark.wire.response import Read


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], arrivals: Path) -> None:
        assert process.stdout is not None
        where = json.loads(process.stdout.readline())
        self.process = process
        self.address: tuple[str, int] = (where["host"], where["port"])
        self._arrivals = arrivals

    def connect(self) -> socket.socket:
        """A connection that gives up after a while, so that no test can hang."""
        return socket.create_connection(self.address, timeout=10)

    def get(self, path: str) -> tuple[int, Any]:
        """The status and JSON of ``path``."""
        with self.connect() as sock:
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            reads, _ = receive(sock)
        head, _, body = b"".join(r.data for r in reads).partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def ask(self, prompt: str, *, chat: bool = True, patience_s: float = 10.0, **fields: Any) -> Answer:
        """Ask on a connection of its own and wait for the end of the answer."""
        with self.connect() as sock:
            sock.settimeout(patience_s)
            sock.sendall(request(prompt, chat=chat, **fields))
            return Answer(*receive(sock))

    def arrivals(self) -> list[dict[str, Any]]:
        """Stop the server and read its account."""
        self.process.terminate()
        self.process.wait(10)
        return [json.loads(line) for line in self._arrivals.read_text().splitlines()]


class Answer:
    """What came back: the reads, and how the connection stood then: ``open``, ``closed`` or ``reset``."""

    def __init__(self, reads: list[Read], ending: str) -> None:
        self.reads = reads
        self.ending = ending
        self.data = b"".join(read.data for read in reads)


def request(prompt: str, *, chat: bool = True, **fields: Any) -> bytes:
    """A whole POST request."""
    content = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
    body = json.dumps({"model": "sim", **content, **fields}).encode()
    path = "/v1/chat/completions" if chat else "/v1/completions"
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def receive(sock: socket.socket) -> tuple[list[Read], str]:
    """Read until the response is over, the connection ends or the socket's timeout."""
    reads: list[Read] = []
    while True:
        try:
            data = sock.recv(65536)
        except TimeoutError:
            return reads, "open"
        except ConnectionResetError:
            return reads, "reset"
        if not data:
            return reads, "closed"
        reads.append(Read(len(reads), data))
        if _over(b"".join(r.data for r in reads)):
            return reads, "open"


def _over(data: bytes) -> bool:
    head, separator, body = data.partition(b"\r\n\r\n")
    lower = head.lower()
    # A server that says it will close is read to the close, whatever else it says.
    if not separator or b"connection: close" in lower:
        return False
    if b"chunked" in lower:
        return body.endswith(b"0\r\n\r\n")
    _, announced, rest = lower.partition(b"content-length:")
    return bool(announced) and len(body) >= int(rest.split()[0])


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts servers that are stopped after the test."""
    started: list[subprocess.Popen[str]] = []

    @contextmanager
    def start(*arguments: str) -> Iterator[Server]:
        account = tmp_path / f"arrivals-{len(started)}.jsonl"
        command = [sys.executable, "-m", "fairmark_sim.server", "--with-parent", "--arrivals", str(account)]
        process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        started.append(process)
        yield Server(process, account)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
