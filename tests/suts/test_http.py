"""The http SUT against real sockets: what it finds out before a run, and what it refuses."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fairmark.drive.probe import probe
from fairmark.errors import InputError, SutError
from fairmark.sut.options import parse_options
from fairmark.wire.dialects import dialect
from fairmark_http.client import BaseUrl, refuse_proxy, split_url
from fairmark_http.sut import HttpSUT


@contextmanager
def server(body: bytes, status: int = 200) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A server that answers everything with ``body``; yields its URL and the headers it saw."""
    seen: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append({"path": self.path, **dict(self.headers.items())})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *args: Any) -> None: ...

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}", seen
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


def make(*assignments: str) -> HttpSUT:
    return HttpSUT(parse_options(HttpSUT.Options, assignments, sut="http"))


MODELS = json.dumps({"data": [{"id": "first"}, {"id": "second"}]}).encode()
ONE = json.dumps({"data": [{"id": "only"}]}).encode()


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_model_is_discovered_with_or_without_v1_in_the_url(suffix: str) -> None:
    with server(ONE) as (url, seen):
        sut = make(f"base_url={url}{suffix}")
        sut.open()
        assert sut.model == "only"
        assert seen[0]["path"] == "/v1/models"
        assert [e.path for e in sut.endpoints()] == ["/v1/chat/completions"]
        assert sut.describe() == {"model": "only", "models_served": ["only"]}


def test_of_several_models_none_is_guessed() -> None:
    with server(MODELS) as (url, _), pytest.raises(InputError, match="one of first, second") as caught:
        make(f"base_url={url}").open()
    assert caught.value.field == "model"


def test_several_servers_must_all_serve_the_model() -> None:
    with server(MODELS) as (many, _), server(ONE) as (one, _):
        with pytest.raises(InputError, match="one of first, only, second"):
            make(f"base_url={many},{one}").open()
        with pytest.raises(SutError, match=f"{one} does not serve 'first'"):
            make(f"base_url={many},{one}", "model=first").open()
        with server(MODELS) as (more, _):
            sut = make(f"base_url={many},{more}/v1", "model=second")
            sut.open()
            assert [e.url for e in sut.endpoints()] == [f"{url}/v1/chat/completions" for url in (many, more)]


@pytest.mark.parametrize(
    ("api", "path", "name"),
    [
        ("responses", "/v1/responses", "openai-responses"),
        ("embeddings", "/v1/embeddings", "openai-embeddings"),
    ],
)
def test_other_apis_have_their_paths(api: str, path: str, name: str) -> None:
    sut = make("base_url=http://h", f"api={api}")
    assert (sut.endpoints()[0].path, sut.dialect, sut.stream) == (path, name, api == "responses")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["base_url=http://h,http://h"], "twice"),
        (["base_url=http://h,http://h:80/v1/"], "twice"),
        (["base_url="], "base_url"),
        (["base_url=http://h", "api=template"], "need each other"),
        (["base_url=http://h", "template=x.json"], "need each other"),
        (["base_url=http://h", 'headers={"X-API-Key":"s3cret"}'], "X-API-Key its value by headers_env"),
        (["base_url=http://h", 'headers={"Authorization":"s3cret"}'], "headers are recorded"),
        (["base_url=http://h", 'headers={"X-Acme-Token":"s3cret"}'], "X-Acme-Token its value by headers_env"),
        (["base_url=http://h", 'headers={"X-Proxy-Auth":"s3cret"}'], "X-Proxy-Auth its value by headers_env"),
        (["base_url=http://h", 'headers={"X-Note":"s3cret\\n"}'], "X-Note has characters"),
        (["base_url=http://h", 'headers={"X Note":"s3cret"}'], "is not a header that can be set"),
        (["base_url=http://h", 'headers_env={"X Note":"NOTE"}'], "is not a header that can be set"),
        (["base_url=http://h", 'extra={"deep":[{"apiKey":"s3cret"}]}'], "extra is recorded, and apiKey"),
    ],
)
def test_options_that_cannot_work_are_refused(options: list[str], words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        make(*options)
    assert "s3cret" not in str(refused.value)


def test_what_only_sounds_like_a_secret_is_taken() -> None:
    make("base_url=http://h", 'headers={"X-Author":"me","X-Tenant":"acme"}')
    make("base_url=http://h", 'extra={"return_token_ids":true,"prompt_cache_key":"k","tokenizer":"t"}')


def test_a_secret_in_the_body_of_a_template_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    document: dict[str, Any] = {
        "schema": "fairmark/http-template/1",
        "path": "/ask",
        "body": {"session": "{{prompt}}"},
        "answer": {"text": "/text", "finish_reason": "/why"},
    }
    file.write_text(json.dumps(document))
    make("base_url=http://h", "api=template", f"template={file}")
    document["body"]["api_key"] = "s3cret"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError, match="body: api_key") as refused:
        make("base_url=http://h", "api=template", f"template={file}")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("value", ["s3cret\n", "s3cr\u00e9t", "s3cret\x7f"])
@pytest.mark.parametrize("option", ["api_key_env=ACME_KEY", 'headers_env={"X-Acme":"ACME_KEY"}'])
def test_a_secret_that_a_header_cannot_carry_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    monkeypatch.setenv("ACME_KEY", value)
    with pytest.raises(InputError, match="ACME_KEY has characters that a header cannot carry") as refused:
        make("base_url=http://127.0.0.1:1", option).open()
    assert "s3cr" not in str(refused.value)


class TestProxies:
    @pytest.fixture(autouse=True)
    def environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.upper(), raising=False)

    @pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
    def test_a_proxy_is_refused_before_anything_is_sent(
        self, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        monkeypatch.setenv(name, "http://proxy.example:3128")
        with pytest.raises(InputError, match="no query is ever sent through a proxy"):
            make("base_url=http://llm.example").open()

    @pytest.mark.parametrize(
        ("url", "exempt", "proxied"),
        [
            ("http://llm.example", "llm.example", False),
            ("http://llm.example", "other.example", True),
            ("https://llm.example", "", False),
            ("http://127.0.0.1:8000", "", False),
            ("http://[::1]:8000", "", False),
            ("http://localhost", "", False),
        ],
    )
    def test_it_counts_only_for_what_it_is_meant_for(
        self, monkeypatch: pytest.MonkeyPatch, url: str, exempt: str, proxied: bool
    ) -> None:
        monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
        monkeypatch.setenv("no_proxy", exempt)
        if proxied:
            with pytest.raises(InputError, match="proxy"):
                refuse_proxy(split_url(url))
        else:
            refuse_proxy(split_url(url))


def test_a_prefix_is_kept_and_the_completions_api_has_its_own_path() -> None:
    with server(MODELS) as (url, seen):
        sut = make(f"base_url={url}/proxy", "api=completions", "model=second")
        sut.open()
        assert seen[0]["path"] == "/proxy/v1/models"
        assert sut.endpoints()[0].path == "/proxy/v1/completions"
        assert (sut.dialect, sut.model) == ("openai-completions", "second")


def test_a_model_that_is_not_served_is_refused_with_the_list() -> None:
    with (
        server(MODELS) as (url, _),
        pytest.raises(SutError, match=r"'third'; it serves first, second") as caught,
    ):
        make(f"base_url={url}", "model=third").open()
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"<html>hello</html>", 200, "not JSON"),
        (b'{"data": []}', 200, "names no model"),
        (b"[]", 200, "names no model"),
        (b'{"error": "who are you"}', 401, "HTTP 401"),
        (b"gone", 404, "HTTP 404"),
        (b"", 500, "HTTP 500"),
    ],
)
def test_a_wrong_server_is_one_clear_line(body: bytes, status: int, words: str) -> None:
    with server(body, status) as (url, _), pytest.raises(SutError, match=words) as caught:
        make(f"base_url={url}").open()
    assert url in str(caught.value)


def test_a_closed_port_is_one_clear_line() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(SutError, match="Connection refused"):
        make(f"base_url=http://127.0.0.1:{port}").open()


def test_tls_to_a_plain_server_is_one_clear_line() -> None:
    with server(MODELS) as (url, _), pytest.raises(SutError, match="TLS failed"):
        make(f"base_url={url.replace('http:', 'https:')}").open()


def test_the_api_key_is_sent_and_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "s3cret")
    with server(ONE) as (url, seen):
        sut = make(f"base_url={url}", "api_key_env=ACME_KEY")
        sut.open()
        assert seen[0]["Authorization"] == "Bearer s3cret"
        assert "s3cret" not in repr(sut.endpoints()) + repr(sut.describe()) + repr(sut.options)


@pytest.mark.parametrize("status", [200, 401])
def test_a_server_that_repeats_the_key_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setenv("ACME_KEY", "s3cret-k3y")
    with server(b'{"error": {"message": "wrong API key: s3cret-k3y"}}', status) as (url, _):
        (endpoint,) = make(f"base_url={url}", "api_key_env=ACME_KEY").endpoints()
        with pytest.raises(SutError, match="repeats the value of a secret") as caught:
            probe(endpoint, b"{}", dialect("openai-chat"), stream=False, timeout_s=5)
    assert "s3cret-k3y" not in str(caught.value)


def test_an_unset_key_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_KEY", raising=False)
    with pytest.raises(InputError, match="ACME_KEY"):
        make("base_url=http://127.0.0.1:1", "api_key_env=ACME_KEY").open()


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://x", "http://", "http://h:99999", "http://u:p@h", "http://h/v1?x=1"]
)
def test_an_unusable_url_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(InputError, match="base_url"):
        make(f"base_url={url}")


def test_urls_are_split() -> None:
    assert split_url("https://api.example.com") == BaseUrl("api.example.com", 443, "/v1", True)
    assert split_url("http://[::1]:8000/v1") == BaseUrl("::1", 8000, "/v1", False)
