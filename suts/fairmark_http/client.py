"""The few untimed requests made before a run: plain, blocking, and clear about what went wrong."""

from __future__ import annotations

import http.client
import ipaddress
import json
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import fairmark

__all__ = ["BaseUrl", "get_json", "refuse_proxy", "split_url"]


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The parts of a base URL; ``prefix`` ends in ``/v1`` and has no trailing slash."""

    host: str
    port: int
    prefix: str
    tls: bool

    @property
    def root(self) -> str:
        """The prefix without its ``/v1``."""
        return self.prefix.removesuffix("/v1")


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


def refuse_proxy(where: BaseUrl) -> None:
    """Refuse to go on where the environment wants requests to ``where`` to take a proxy.

    A proxy would be measured with the server. This machine itself is never reached through one.

    Raises:
        InputError: a proxy is set for the host.
    """
    scheme = "https" if where.tls else "http"
    proxies = getproxies()
    name = next((name for name in (scheme, "all") if proxies.get(name)), None)
    if name is None or _is_this_machine(where.host) or proxy_bypass(f"{where.host}:{where.port}"):
        return
    raise fairmark.InputError(
        f"the environment sets {name}_proxy, and no query is ever sent through a proxy: its time and "
        "its limits would be booked as the server's",
        source="-o",
        field="base_url",
        value=where.host,
        accepted=f"{name}_proxy unset, or the host in no_proxy",
    )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def get_json(endpoint: fairmark.Endpoint, *, timeout_s: float = 10.0) -> Any:
    """GET ``endpoint`` and parse its JSON body.

    Raises:
        SutError: no connection, a TLS failure, a status other than 200, or a body that is not JSON.
    """
    url = endpoint.url
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
