"""What a first request finds out, against endpoints that are wrong in every common way."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairmark.drive.probe import probe
from fairmark.errors import SutError
from fairmark.sut.api import Endpoint
from fairmark.wire.dialects import dialect

CHAT = dialect("openai-chat")
DATA = Path(__file__).parent / "data"
GOOD = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"a"}}]}'


def answer(status: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


@contextlib.contextmanager
def server(reply: bytes, context: ssl.SSLContext | None = None, *, patient: bool = True) -> Iterator[int]:
    """Answers one connection with ``reply``; if ``patient``, the client closes it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            with connection if context is None else context.wrap_socket(connection, server_side=True) as c:
                c.recv(65536)
                c.sendall(reply)
                if patient:
                    c.recv(1)

    thread = threading.Thread(target=serve)
    thread.start()
    yield listening.getsockname()[1]
    listening.close()
    thread.join()


def ask(port: int, *, tls: bool = False, timeout_s: float = 5.0) -> dict[str, object]:
    return probe(Endpoint("127.0.0.1", port, "/x", tls=tls), b"{}", CHAT, stream=False, timeout_s=timeout_s)


def test_a_good_answer_is_observed() -> None:
    with server(answer("200 OK", GOOD)) as port:
        seen = ask(port)
    assert (seen["http_status"], seen["content_type"]) == (200, "application/json")


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (answer("401 Unauthorized", b'{"error":"no key"}'), r'answered HTTP 401 .*"no key"'),
        (answer("404 Not Found", b""), "answered HTTP 404"),
        (answer("422 Unprocessable", b"bad"), "answered HTTP 422 to a first request: bad"),
        (answer("429 Too Many Requests", b""), "answered HTTP 429"),
        (answer("503 Service Unavailable", b""), "answered HTTP 503"),
        (answer("302 Found", b""), "answered HTTP 302"),
        (answer("200 OK", b"<html>hello</html>", "text/html"), "the answer is not openai-chat"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "does not speak HTTP"),
    ],
)
def test_what_is_plainly_wrong_is_said_in_one_line(reply: bytes, problem: str) -> None:
    with server(reply) as port:
        pattern = rf"^http://127\.0\.0\.1:{port}/x: .*{problem}"
        with pytest.raises(SutError, match=pattern) as caught:
            ask(port)
    assert "\n" not in str(caught.value)


def test_a_server_that_hangs_up_is_said_so() -> None:
    with server(b"", patient=False) as port, pytest.raises(SutError, match=r"hung up|connection failed"):
        ask(port)


def test_a_truncated_generation_is_for_the_run_to_count() -> None:
    cut = answer("200 OK", GOOD[:20]).replace(b"Content-Length: 20", b"Content-Length: 90")
    with server(cut, patient=False) as port:
        assert ask(port)["http_status"] == 200


def test_a_closed_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(SutError, match=r"the connection failed .*refused"):
        ask(port)


def test_an_unknown_host_is_said_so() -> None:
    endpoint = Endpoint("host.invalid", 80, "/")
    with pytest.raises(SutError, match=r"http://host\.invalid:80/: the connection failed"):
        probe(endpoint, b"{}", CHAT, stream=False, timeout_s=5.0)


def test_silence_has_an_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, pytest.raises(SutError, match="no answer"):
        ask(listening.getsockname()[1], timeout_s=0.2)


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "localhost.pem")
    with server(answer("200 OK", GOOD), context) as port, pytest.raises(SutError, match="TLS failed"):
        ask(port, tls=True)


def test_a_server_without_tls_is_said_so() -> None:
    with server(answer("200 OK", GOOD)) as port, pytest.raises(SutError, match="TLS failed"):
        ask(port, tls=True)
