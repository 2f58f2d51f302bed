"""One request before the run: what is plainly wrong with the endpoint shows here, in one line."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any, Final

from fairmark.errors import SutError
from fairmark.sut.api import Endpoint
from fairmark.wire.dialects import Dialect
from fairmark.wire.response import Read

__all__ = ["probe"]

_SHORTEST_SECRET: Final = 8
_MAX_EXCERPT: Final = 200
_LONGEST_S: Final = 60.0
_CLOSING_S: Final = 0.2
"""How soon after its response a server that closes connections has done so."""


def probe(
    endpoint: Endpoint, body: bytes, dialect: Dialect, *, stream: bool, timeout_s: float
) -> dict[str, Any]:
    """Send ``body`` to ``endpoint`` and look at the answer.

    Truncated, empty and failed generations are the run's to count; a server that refuses the request or
    speaks something else is not worth a run.

    Returns:
        What was observed: ``http_status``, ``server``, ``content_type``, and ``keeps_connection``: whether
        the connection was still open shortly after the response. Some servers close it without saying so,
        and a query sent on it then would be lost.

    Raises:
        SutError: it cannot be reached, is no HTTP server, does not accept the request, answers in another
            dialect, or repeats a secret, which would then be in the stored bytes.
    """
    where = endpoint.url
    try:
        seen = _ask(endpoint, body, min(timeout_s, _LONGEST_S))
    except TimeoutError as error:
        raise SutError(f"{where}: no answer to a first request in time") from error
    except ssl.SSLError as error:
        raise SutError(f"{where}: TLS failed ({error.reason or error})") from error
    except http.client.RemoteDisconnected as error:
        raise SutError(f"{where}: hung up on a first request") from error
    except (http.client.BadStatusLine, http.client.UnknownProtocol) as error:
        raise SutError(f"{where}: what listens there does not speak HTTP") from error
    except (OSError, http.client.HTTPException) as error:
        raise SutError(f"{where}: the connection failed ({_reason(error)})") from error
    if seen.repeats_secret:
        raise SutError(f"{where}: repeats the value of a secret header, and what it sends is recorded")
    if seen.status != 200:
        excerpt = " ".join(seen.content.decode("utf-8", "replace").split())[:_MAX_EXCERPT]
        raise SutError(f"{where}: answered HTTP {seen.status} to a first request: {excerpt}")
    if seen.whole:
        _check_dialect(where, seen, dialect, stream=stream)
    return {
        "http_status": seen.status,
        "server": seen.server,
        "content_type": seen.content_type,
        "keeps_connection": seen.keeps_connection,
    }


@dataclass(frozen=True, slots=True)
class _Seen:
    """A response; ``whole`` is whether all of it came."""

    status: int
    server: str | None
    content_type: str | None
    content: bytes
    whole: bool
    keeps_connection: bool
    repeats_secret: bool


def _ask(endpoint: Endpoint, body: bytes, timeout_s: float) -> _Seen:
    protocol = http.client.HTTPSConnection if endpoint.tls else http.client.HTTPConnection
    connection = protocol(endpoint.host, endpoint.port, timeout=timeout_s)
    headers: Mapping[str, str] = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        **endpoint.headers,
        **endpoint.secret_headers,
    }
    try:
        connection.request("POST", endpoint.path, body, dict(headers))
        response = connection.getresponse()
        content, whole = _read(response)
        kept = not whole or (not response.will_close and _stays_open(connection.sock))
        kind = response.getheader("Content-Type")
        sent = str(response.headers).encode("utf-8", "replace") + content
        return _Seen(
            response.status,
            response.getheader("Server"),
            kind,
            content,
            whole,
            kept,
            any(secret in sent for secret in _secrets(endpoint)),
        )
    finally:
        connection.close()


def _secrets(endpoint: Endpoint) -> list[bytes]:
    """What must not come back: of a scheme and a key, the key. A short word is found anywhere."""
    words = [value.split()[-1:] for value in endpoint.secret_headers.values()]
    return [word.encode() for (word,) in filter(None, words) if len(word) >= _SHORTEST_SECRET]


def _read(response: http.client.HTTPResponse) -> tuple[bytes, bool]:
    """The body, and whether it is whole. One that is cut off says nothing about the connections to come."""
    try:
        return response.read(), True
    except http.client.IncompleteRead as cut:
        return cut.partial, False
    except ConnectionError:
        return b"", False


def _stays_open(connection: socket.socket | None) -> bool:
    """Whether the other side leaves an idle connection open: anything readable on it now is its end."""
    return connection is not None and not select.select([connection], [], [], _CLOSING_S)[0]


def _check_dialect(where: str, seen: _Seen, dialect: Dialect, *, stream: bool) -> None:
    kind = seen.content_type or "application/octet-stream"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(seen.content)}\r\n\r\n"
    answer = dialect.decode([Read(monotonic_ns(), head.encode() + seen.content)], closed=False, stream=stream)
    if answer.failure == "malformed":
        raise SutError(f"{where}: the answer is not {dialect.name} ({answer.failure_detail})")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
