"""A run over TLS, against a server whose certificate the environment vouches for."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairmark.sut.api import Endpoint

CERTIFICATE = Path(__file__).parent / "data" / "localhost.pem"
EVENTS = (
    b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            writer.write(HEAD)
            for event in (*EVENTS, b""):
                writer.write(b"%x\r\n%b\r\n" % (len(event), event))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


@pytest.fixture
def https_port() -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    loop, ports, stop = asyncio.new_event_loop(), [], asyncio.Event()
    ready = threading.Event()

    async def serve() -> None:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, ssl=context)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    yield ports[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


@pytest.mark.parametrize("kind", ["SingleStream", "Server"])
def test_a_run_over_tls(bench: Any, https_port: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    sut = bench.sut()
    sut.endpoints = lambda: [Endpoint("127.0.0.1", https_port, "/v1/chat/completions", tls=True)]
    ran = bench.run(kind, sut, "settings.target_qps=100")
    queries = ran.queries()
    assert len(queries) == 20
    assert {q["failure"] for q in queries} == {None}
    assert all(
        q["sent_ns"] <= q["first_byte_ns"] <= q["first_token_ns"] <= q["completed_ns"] for q in queries
    )
