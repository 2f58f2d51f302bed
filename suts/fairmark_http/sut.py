"""The ``http`` SUT: an endpoint, a dialect, and what the server says about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import fairmark
from fairmark_http.client import get_json, split_url

__all__ = ["DIALECTS", "HttpSUT"]

DIALECTS: Mapping[str, tuple[str, str]] = {
    "chat": ("openai-chat", "/chat/completions"),
    "completions": ("openai-completions", "/completions"),
}
"""For each ``api``: the wire dialect and its path under the base URL's ``/v1``."""


class HttpSUT(fairmark.WireSUT):
    """A server that speaks an OpenAI-compatible API. It is started and stopped by someone else."""

    @dataclass(frozen=True)
    class Options:
        """How to reach the endpoint and what to ask of it."""

        base_url: Annotated[str, "address of the server, with or without /v1"]
        model: Annotated[str | None, "model name for the requests; default: the first of /v1/models"] = None
        api: Annotated[Literal["chat", "completions"], "which API to drive"] = "chat"
        stream: Annotated[bool, "ask for a stream; without it there is no first token"] = True
        headers: Annotated[Mapping[str, str], "extra request headers, recorded"] = field(default_factory=dict)
        api_key_env: Annotated[str | None, "environment variable with the API key; never recorded"] = None
        max_in_flight: Annotated[int, "Offline only: samples in flight at once"] = 64
        extra: Annotated[Mapping[str, Any], "fields added to every request body"] = field(
            default_factory=dict
        )

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            split_url(self.base_url)
            if self.max_in_flight < 1:
                raise ValueError("max_in_flight must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.dialect = DIALECTS[options.api][0]
        self.stream = options.stream
        self.max_in_flight = options.max_in_flight
        self.extra = options.extra
        self._served: list[str] = []

    def open(self) -> None:
        """Ask ``/v1/models`` what is served.

        Raises:
            SutError: nothing answers there, it is not an OpenAI-compatible server, or the model that was
                asked for is not served.
        """
        answer = get_json(self._endpoint("/models"))
        listed = answer.get("data") if isinstance(answer, dict) else None
        self._served = [m["id"] for m in listed or () if isinstance(m, dict) and isinstance(m.get("id"), str)]
        wanted = self.options.model
        if not self._served:
            raise fairmark.SutError(
                f"{self.options.base_url}: /v1/models names no model; is this an OpenAI-compatible server?"
            )
        if wanted is not None and wanted not in self._served:
            raise fairmark.SutError(
                f"{self.options.base_url} does not serve {wanted!r}; it serves {', '.join(self._served)}"
            )
        self.model = wanted or self._served[0]

    def describe(self) -> Mapping[str, Any]:
        """What is known from outside: the model name and the list of models served."""
        return {"model": self.model, "models_served": self._served}

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        """The one endpoint of the chosen API."""
        return [self._endpoint(DIALECTS[self.options.api][1])]

    def _endpoint(self, path: str) -> fairmark.Endpoint:
        where = split_url(self.options.base_url)
        return fairmark.Endpoint(
            host=where.host,
            port=where.port,
            path=f"{where.prefix}{path}",
            tls=where.tls,
            headers=self.options.headers,
            secret_headers=self._secrets(),
        )

    def _secrets(self) -> Mapping[str, str]:
        variable = self.options.api_key_env
        if variable is None:
            return {}
        key = os.environ.get(variable)
        if not key:
            raise fairmark.InputError(
                "the environment variable is not set", source="-o", field="api_key_env", value=variable
            )
        return {"Authorization": f"Bearer {key}"}
