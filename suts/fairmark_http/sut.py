"""The ``http`` SUT: endpoints, a dialect, and what the servers say about themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import fairmark
from fairmark.wire.request_headers import check_headers
from fairmark.wire.template import TEMPLATE, JsonTemplate, read_template
from fairmark_http.client import BaseUrl, get_json, refuse_proxy, split_url
from fairmark_http.secrets import carries_secret, secret_fields

__all__ = ["DIALECTS", "HttpSUT"]

DIALECTS: Mapping[str, tuple[str, str]] = {
    "chat": ("openai-chat", "/chat/completions"),
    "completions": ("openai-completions", "/completions"),
    "responses": ("openai-responses", "/responses"),
    "embeddings": ("openai-embeddings", "/embeddings"),
}
"""For each ``api`` of OpenAI's: the wire dialect and its path under the base URL's ``/v1``."""


class HttpSUT(fairmark.WireSUT):
    """Servers that speak an OpenAI-compatible API, or one that a template describes.

    They are started and stopped by someone else. Several take turns, query by query.
    """

    @dataclass(frozen=True)
    class Options:
        """How to reach the servers and what to ask of them."""

        base_url: Annotated[tuple[str, ...], "address, with or without /v1; several take turns"]
        model: Annotated[str | None, "model name for the requests; default: the only one served"] = None
        api: Annotated[
            Literal["chat", "completions", "responses", "embeddings", "template"], "which API to drive"
        ] = "chat"
        template: Annotated[Path | None, "api=template: a JSON file that describes the API"] = None
        stream: Annotated[bool, "ask for a stream; without one, as for embeddings, no first token"] = True
        headers: Annotated[Mapping[str, str], "extra request headers, recorded"] = field(default_factory=dict)
        headers_env: Annotated[
            Mapping[str, str], "extra headers by environment variable; values are never recorded"
        ] = field(default_factory=dict)
        api_key_env: Annotated[str | None, "environment variable with the API key; never recorded"] = None
        max_in_flight: Annotated[int, "Offline only: samples in flight at once"] = 64
        extra: Annotated[Mapping[str, Any], "fields added to every request body"] = field(
            default_factory=dict
        )

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            if not self.base_url:
                raise ValueError("base_url names no server")
            if len({split_url(url) for url in self.base_url}) < len(self.base_url):
                raise ValueError("base_url names a server twice")
            if (self.api == "template") != (self.template is not None):
                raise ValueError("api=template and template=FILE need each other")
            for name in self.headers:
                if carries_secret(name):
                    raise ValueError(f"headers are recorded; give {name} its value by headers_env")
            check_headers(self.headers)
            check_headers(dict.fromkeys(self.headers_env, ""), field="headers_env")
            for name in secret_fields(self.extra):
                raise ValueError(f"extra is recorded, and {name} would be; give a secret by headers_env")
            if self.max_in_flight < 1:
                raise ValueError("max_in_flight must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if options.template is None:
            self.dialect = DIALECTS[options.api][0]
        else:
            self.dialect, self.template = TEMPLATE, read_template(options.template)
            for name in secret_fields(self.template["body"]):
                raise fairmark.InputError(
                    "a template is recorded, and the value of this would be",
                    source=options.template,
                    field=f"body: {name}",
                    accepted="a secret in a header, by headers_env",
                )
        self.model = options.model or ""
        self.stream = options.stream and options.api != "embeddings"
        self.max_in_flight = options.max_in_flight
        self.extra = options.extra
        self._served: list[str] | None = None

    def open(self) -> None:
        """Ask every server what it serves; one that a template describes is asked nothing.

        Raises:
            InputError: a proxy is set for a server, or several models are served and none is chosen.
            SutError: nothing answers there, it is not an OpenAI-compatible server, or the model that was
                asked for is not served.
        """
        for url in self.options.base_url:
            refuse_proxy(split_url(url))
        if self.template is None:
            listed = [self._listed(url) for url in self.options.base_url]
            self._served = [name for name in listed[0] if all(name in others for others in listed)]
            self.model = self._chosen(listed)

    def describe(self) -> Mapping[str, Any]:
        """What is known from outside: the model name and the models that every server lists."""
        return {"model": self.model, "models_served": self._served}

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        """One for each base URL, at the path of the chosen API."""
        return [self._endpoint(split_url(url)) for url in self.options.base_url]

    def _listed(self, url: str) -> list[str]:
        """The models that the server at ``url`` lists."""
        where = split_url(url)
        answer = get_json(self._at(where, f"{where.prefix}/models"))
        entries = answer.get("data") if isinstance(answer, dict) else None
        names = [m["id"] for m in entries or () if isinstance(m, dict) and isinstance(m.get("id"), str)]
        if not names:
            raise fairmark.SutError(f"{url}: /v1/models names no model; is this an OpenAI-compatible server?")
        wanted = self.options.model
        if wanted is not None and wanted not in names:
            raise fairmark.SutError(f"{url} does not serve {wanted!r}; it serves {', '.join(names)}")
        return names

    def _chosen(self, listed: Sequence[Sequence[str]]) -> str:
        """The model to ask for: the one that was named, else the only one."""
        if self.options.model is not None:
            return self.options.model
        names = sorted({name for names in listed for name in names})
        if len(names) > 1:
            raise fairmark.InputError(
                "several models are served, and none is chosen",
                source="-o",
                field="model",
                accepted=f"one of {', '.join(names)}",
            )
        return names[0]

    def _endpoint(self, where: BaseUrl) -> fairmark.Endpoint:
        if self.template is None:
            return self._at(where, f"{where.prefix}{DIALECTS[self.options.api][1]}")
        return self._at(where, f"{where.root}{JsonTemplate(self.template).path_of(stream=self.stream)}")

    def _at(self, where: BaseUrl, path: str) -> fairmark.Endpoint:
        return fairmark.Endpoint(
            host=where.host,
            port=where.port,
            path=path,
            tls=where.tls,
            headers=self.options.headers,
            secret_headers=self._secrets(),
        )

    def _secrets(self) -> Mapping[str, str]:
        secrets = {
            name: _variable(variable, "headers_env") for name, variable in self.options.headers_env.items()
        }
        if self.options.api_key_env is not None:
            secrets["Authorization"] = f"Bearer {_variable(self.options.api_key_env, 'api_key_env')}"
        return secrets


def _variable(name: str, field: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise fairmark.InputError("the environment variable is not set", source="-o", field=field, value=name)
    check_headers({name: value}, field=field)
    return value
