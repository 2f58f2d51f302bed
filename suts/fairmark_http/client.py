"""The few untimed requests made before a run: plain, blocking, and clear about what went wrong."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import fairmark

__all__ = ["BaseUrl", "get_json", "split_url"]


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The parts of a base URL; ``prefix`` ends in ``/v1`` and has no trailing slash."""

    host: str
    port: int
    prefix: str
    tls: bool


def split_url(text: str) -> BaseUrl:
    """Read a base URL, with or without ``/v1``.

    Raises:
        ValueError: it is not an http or https URL with a host.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"base_url {text!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url {text!r} is not a URL; accepted: http://HOST[:PORT][/v1] or https://…")
    if parts.query or parts.fragment or parts.username:
        raise ValueError(f"base_url {text!r} must not hold a query, fragment or credentials")
    tls = parts.scheme == "https"
    path = parts.path.rstrip("/")
    prefix = path if path.endswith("/v1") else f"{path}/v1"
    return BaseUrl(parts.hostname, port or (443 if tls else 80), prefix, tls)


def get_json(endpoint: fairmark.Endpoint, *, timeout_s: float = 10.0) -> Any:
    """GET ``endpoint`` and parse its JSON body.

    Raises:
        SutError: no connection, a TLS failure, a status other than 200, or a body that is not JSON.
    """
    url = f"{'https' if endpoint.tls else 'http'}://{endpoint.host}:{endpoint.port}{endpoint.path}"
    connection: http.client.HTTPConnection
    if endpoint.tls:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(
            endpoint.host, endpoint.port, timeout=timeout_s, context=context
        )
    else:
        connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout_s)
    try:
        headers = {"Accept": "application/json", **endpoint.headers, **endpoint.secret_headers}
        connection.request("GET", endpoint.path, headers=headers)
        response = connection.getresponse()
        body = response.read()
    except ssl.SSLError as error:
        raise fairmark.SutError(f"{url}: TLS failed: {error.reason or error}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise fairmark.SutError(f"{url}: no usable answer: {reason}") from error
    finally:
        connection.close()
    if response.status != 200:
        excerpt = body[:200].decode("utf-8", "replace").strip()
        raise fairmark.SutError(f"{url}: HTTP {response.status} {response.reason}: {excerpt}")
    try:
        return json.loads(body)
    except ValueError as error:
        raise fairmark.SutError(f"{url}: the answer is not JSON; is this the right server?") from error
