"""Single requests to a server, by hand: cut off in the middle, or complete."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any

from fairmark.drive.probe import probe
from fairmark.errors import SutError
from fairmark.samples.sample import Sample
from fairmark.study.run import SutChoice
from fairmark.sut.api import Endpoint, WireSUT
from fairmark.wire.dialects import dialect

__all__ = ["ask", "hang_up_then_ask", "takes_stops", "takes_text"]


def takes_text(choice: SutChoice) -> bool:
    """Completion requests carry a text, those by a template what it says, everything else messages."""
    if not issubclass(choice.cls, WireSUT):
        return False
    sut = choice.cls(choice.options)
    return sut.dialect == "openai-completions" or _has_place(sut, "prompt")


def takes_stops(choice: SutChoice) -> bool:
    """Whether requests have a place for stop sequences."""
    if not issubclass(choice.cls, WireSUT):
        return True
    sut = choice.cls(choice.options)
    return sut.dialect != "openai-responses" and (sut.template is None or _has_place(sut, "stop"))


def _has_place(sut: WireSUT, name: str) -> bool:
    return sut.template is not None and f"{{{{{name}}}}}" in json.dumps(sut.template["body"])


def ask(sut: WireSUT, sample: Sample, patience_s: float) -> list[dict[str, Any]]:
    """Ask once: ``failure`` is None, or what the driver's probe has to say."""
    spoken, endpoint = dialect(sut.dialect, sut.template), sut.endpoints()[0]
    try:
        probe(endpoint, _body(sut, sample), spoken, stream=sut.stream, timeout_s=patience_s)
    except SutError as error:
        return [{"failure": "refused", "detail": str(error), "answer": ""}]
    return [{"failure": None, "detail": "", "answer": ""}]


def hang_up_then_ask(sut: WireSUT, sample: Sample, patience_s: float) -> Mapping[str, Any]:
    """Hang up on two requests, one before and one inside its answer, then ask once more.

    Raises:
        SutError: the server cannot be reached at all.
    """
    endpoint = sut.endpoints()[0]
    for read_first in (False, True):
        _hang_up(endpoint, _body(sut, sample), patience_s, read_first=read_first)
    return {"given_up": 2, "after": ask(sut, sample, patience_s)}


def _hang_up(endpoint: Endpoint, body: bytes, patience_s: float, *, read_first: bool) -> None:
    protocol = http.client.HTTPSConnection if endpoint.tls else http.client.HTTPConnection
    connection = protocol(endpoint.host, endpoint.port, timeout=patience_s)
    headers = {"Content-Type": "application/json", **endpoint.headers, **endpoint.secret_headers}
    try:
        connection.request("POST", endpoint.path, body, headers)
        if read_first:
            connection.getresponse().read(1)
    except (OSError, http.client.HTTPException) as error:
        raise SutError(f"a request that was to be cut off failed before: {error}") from error
    finally:
        connection.close()


def _body(sut: WireSUT, sample: Sample) -> bytes:
    spoken = dialect(sut.dialect, sut.template)
    return spoken.render(sample, model=sut.model, stream=sut.stream, extra=sut.extra)
