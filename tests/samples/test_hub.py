"""Hub data sets, against a local server that speaks the part of the Hub's HTTP API that is used."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from fairmark.errors import InputError
from fairmark.samples.content import content_sha256
from fairmark.samples.library import load_library
from fairmark.scenario.model import Generation, Samples

COMMIT = "0123456789abcdef0123456789abcdef01234567"
ROWS = [{"question": "2024-01-01", "answer": "1"}, {"question": "NA", "answer": "2"}]
CARD = b"""---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train.jsonl
  - split: test
    path: main/test-*.jsonl
- config_name: other
  data_files:
  - split: test
    path: other/test.csv
---
"""


def lines(rows: list[dict[str, str]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


REPOSITORIES: Mapping[str, Mapping[str, bytes]] = {
    "org/plain": {"test.jsonl": lines(ROWS)},
    "org/configured": {
        "README.md": CARD,
        "main/train.jsonl": lines([{"question": "t", "answer": "t"}]),
        "main/test-0.jsonl": lines(ROWS[:1]),
        "main/test-1.jsonl": lines(ROWS[1:]),
        "other/test.csv": b"question,answer\nc,d\n",
    },
}


class Hub(BaseHTTPRequestHandler):
    """/api/datasets/ID/..., /datasets/ID/resolve/COMMIT/PATH; everything else does not exist."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the inherited name
        pass

    def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def missing(self, code: str) -> None:
        self.answer(404, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/")
        api = path.startswith("api/datasets/")
        parts = path.removeprefix("api/").removeprefix("datasets/").split("/")
        name, rest = "/".join(parts[:2]), parts[2:]
        files = REPOSITORIES.get(name)
        if files is None:
            self.missing("RepoNotFound")
        elif api:
            self.api(name, rest, files)
        elif rest[:2] == ["resolve", COMMIT]:
            self.resolve("/".join(rest[2:]), files)
        else:
            self.missing("RevisionNotFound")

    do_HEAD = do_GET  # noqa: N815 the name that http.server looks for

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path).strip("/").removeprefix("api/datasets/").split("/")
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        wanted = json.loads(sent)["paths"] if sent.startswith("{") else parse_qs(sent).get("paths", [])
        files = REPOSITORIES.get("/".join(path[:2]), {})
        found = [item for item in tree(files, "") if item["path"] in wanted]
        self.answer(200, json.dumps(found).encode(), {"Content-Type": "application/json"})

    def api(self, name: str, rest: list[str], files: Mapping[str, bytes]) -> None:
        body: Any
        if rest[:1] == ["tree"] and rest[1] == COMMIT:
            body = tree(files, "".join(f"{part}/" for part in rest[2:]))
        elif rest in ([], ["revision", COMMIT]):
            body = {"id": name, "sha": COMMIT, "siblings": [{"rfilename": f} for f in files], "tags": []}
        else:
            self.missing("RevisionNotFound")
            return
        self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def resolve(self, file: str, files: Mapping[str, bytes]) -> None:
        if file not in files:
            self.missing("EntryNotFound")
            return
        etag = hashlib.sha1(files[file], usedforsecurity=False).hexdigest()
        self.answer(200, files[file], {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT})


def entry(path: str, content: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}


def tree(files: Mapping[str, bytes], prefix: str) -> list[dict[str, Any]]:
    """Files and folders below ``prefix``, as the recursive listing gives them."""
    inside = {path: content for path, content in files.items() if path.startswith(prefix)}
    folders = {path.rpartition("/")[0] for path in inside} - {"", prefix.rstrip("/")}
    return [entry(path, content) for path, content in inside.items()] + [
        {"type": "directory", "path": path, "size": 0, "oid": "0" * 40} for path in sorted(folders)
    ]


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def online(hub: str, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_ENDPOINT", hub)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return fresh_cache


def load(source: str, **spec: Any) -> Any:
    return load_library(Samples(source, "question", reference="answer", **spec), Generation(), base=Path())


@pytest.mark.usefixtures("online")
def test_a_hub_data_set_has_the_digest_of_its_content() -> None:
    found = load(f"hub:org/plain@{COMMIT}")
    assert [found.row(i) for i in range(len(found))] == ROWS
    assert found.content_sha256 == content_sha256(ROWS, ["question", "answer"])
    assert [(f.name, f.sha256) for f in found.files] == [
        ("test.jsonl", hashlib.sha256(lines(ROWS)).hexdigest())
    ]


@pytest.mark.usefixtures("online")
def test_configuration_and_split_choose_the_files_and_their_order() -> None:
    found = load(f"hub:org/configured@{COMMIT}:main/test")
    assert found.content_sha256 == content_sha256(ROWS, ["question", "answer"])
    assert [file.name for file in found.files] == ["test-0.jsonl", "test-1.jsonl"]


@pytest.mark.usefixtures("online")
def test_a_csv_of_the_hub_is_read_like_a_local_one() -> None:
    assert load(f"hub:org/configured@{COMMIT}:other/test").row(0) == {"question": "c", "answer": "d"}


@pytest.mark.usefixtures("online")
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (f"hub:org/configured@{COMMIT}", "Config name is missing.*accepted: hub:ID@COMMIT:CONFIG/SPLIT"),
        (f"hub:org/configured@{COMMIT}:none/test", "BuilderConfig 'none' not found"),
        (f"hub:org/configured@{COMMIT}:main/dev", f"no split 'dev'.*accepted: hub:.*{COMMIT}:main/train, "),
        (f"hub:org/none@{COMMIT}", "the hub did not give this data set"),
        (f"hub:org/plain@{'f' * 40}", "the hub did not give this data set"),
    ],
)
def test_what_the_hub_does_not_have_is_one_line(source: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        load(source)
    assert "\n" not in str(raised.value)


def test_a_prepared_hub_data_set_needs_no_hub(online: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(f"hub:org/plain@{COMMIT}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert load(f"hub:org/plain@{COMMIT}") == first


def test_without_a_hub_one_line_says_what_helps(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="HF_ENDPOINT, HF_HUB_OFFLINE") as raised:
        load(f"hub:org/plain@{COMMIT}")
    assert "\n" not in str(raised.value)
