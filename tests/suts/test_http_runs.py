"""Runs of the http SUT against real sockets, through the command line, and their audits."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from fairmark.audit.endpoints import check_endpoints
from fairmark.audit.problems import Problems
from fairmark.audit.subject import load_subject
from fairmark_sim import SimHttpSUT
from fairmark_sim.embeddings import DIMENSIONS, vector_of

SCENARIO = """
schema = "fairmark/scenario/1"
name = "http"
scenario = "Concurrency"
[model]
name = "sim"
[samples]
source = "samples.jsonl"
prompt = "question"
input = "{kind}"
performance_sample_count = 12
[generation]
max_output_tokens = 6
[warmup]
queries = 0
[run]
min_query_count = 12
[settings]
concurrency = 2
"""

QUESTIONS = [f"What is {n} plus {n}?" for n in range(12)]
TEMPLATE = {
    "schema": "fairmark/http-template/1",
    "path": "/v1/completions",
    "body": {
        "prompt": "{{prompt}}",
        "max_tokens": "{{max_tokens}}",
        "stream": "{{stream}}",
        "stream_options": {"include_usage": True},
        "seed": "{{seed}}",
        "note": "at {{temperature}}",
    },
    "answer": {
        "text": "/choices/0/text",
        "finish_reason": "/choices/0/finish_reason",
        "output_tokens": "/usage/completion_tokens",
        "input_tokens": "/usage/prompt_tokens",
    },
    "events": {
        "text": "/choices/0/text",
        "finish_reason": "/choices/0/finish_reason",
        "output_tokens": "/usage/completion_tokens",
        "end": "[DONE]",
    },
}

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def servers() -> Iterator[Callable[..., str]]:
    """Starts simulated servers; gives the address of each."""
    started: list[SimHttpSUT] = []

    def start(**options: Any) -> str:
        sut = SimHttpSUT(SimHttpSUT.Options(**options))
        started.append(sut)
        sut.open()
        endpoint = sut.endpoints()[0]
        return f"http://{endpoint.host}:{endpoint.port}"

    yield start
    for sut in started:
        sut.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs and audits; gives the record, and the folder as ``folder``."""
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps({"question": q}) + "\n" for q in QUESTIONS))

    def call(*options: str, kind: str = "text") -> dict[str, Any]:
        (tmp_path / "s.toml").write_text(SCENARIO.format(kind=kind))
        given = [word for option in options for word in ("-o", option)]
        done = fairmark(tmp_path, "run", "s.toml", "--sut", "http", *given, "--out", "out", "--json")
        assert done.stdout, done.stderr
        audit = fairmark(tmp_path, "audit", "out")
        assert (audit.returncode, audit.stdout.split(":")[0]) == (0, "ok"), audit.stdout
        record: dict[str, Any] = json.loads(done.stdout)["record"]
        return {**record, "folder": tmp_path / "out"}

    return call


def fairmark(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairmark", *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


def rows(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = pq.read_table(record["folder"] / "evidence" / f"{name}.parquet").to_pylist()
    return table


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_responses_api(servers: Any, run: Run, stream: bool) -> None:
    record = run(f"base_url={servers(output_tokens=9, tpot_ms=1)}", "api=responses", f"stream={stream}")
    queries = rows(record, "queries")
    assert len(queries) == 12
    assert {(q["failure"], q["finish_reason"], q["output_tokens"], q["flags"]) for q in queries} == {
        (None, "length", 6, None)
    }
    assert all((q["first_token_ns"] is not None) == stream for q in queries)


def test_embeddings_are_data_and_have_no_tokens(servers: Any, run: Run) -> None:
    record = run(f"base_url={servers()}", "api=embeddings", kind="data")
    assert {q["failure"] for q in rows(record, "queries")} == {None}
    asked = {q["seq"]: QUESTIONS[q["sample_index"]] for q in rows(record, "queries")}
    for output in rows(record, "outputs"):
        vector = np.frombuffer(output["data"], dtype="<f4")
        assert vector.shape == (DIMENSIONS,)
        assert vector.tolist() == vector_of(asked[output["seq"]])
    latency = record["metrics"]["performance"]["latency"]
    assert "not applicable" in latency["ttft_ns"]["undefined"]
    assert latency["e2e_ns"]["from_send"]["n"] == 12


@pytest.mark.parametrize("stream", [True, pytest.param(False, marks=pytest.mark.long)])
def test_an_api_that_a_template_describes(servers: Any, run: Run, tmp_path: Path, stream: bool) -> None:
    (tmp_path / "own.json").write_text(json.dumps(TEMPLATE))
    url = servers(output_tokens=9, tpot_ms=1)
    record = run(f"base_url={url}", "api=template", "template=own.json", f"stream={stream}")
    queries = rows(record, "queries")
    assert {(q["failure"], q["finish_reason"], q["output_tokens"], q["flags"]) for q in queries} == {
        (None, "length", 6, None)
    }
    assert record["sut"]["dialect"] == "json-template"
    assert record["requests"]["template"] == TEMPLATE
    assert len(record["requests"]["template_sha256"]) == 64


def test_several_servers_take_turns_and_an_audit_sees_it(servers: Any, run: Run) -> None:
    urls = [servers() for _ in range(3)]
    record = run(f"base_url={','.join(urls)}", "api=completions")
    assert record["requests"]["endpoints"] == [f"{url}/v1/completions" for url in urls]
    queries = rows(record, "queries")
    assert [q["endpoint"] for q in queries] == [q["seq"] % 3 for q in queries]
    for number, url in enumerate(urls):
        assert asked_of(url) == Counter(q["endpoint"] for q in queries)[number] + 1  # and the probe

    problems = Problems()
    written = {k: v for k, v in record.items() if k != "folder"}
    subject = load_subject(record["folder"], written, problems)
    assert subject is not None, problems
    favoured = pa.array([0] * len(queries), pa.int32())
    table = subject.evidence.queries
    altered = table.set_column(table.schema.get_field_index("endpoint"), table.field("endpoint"), favoured)
    evidence = dataclasses.replace(subject.evidence, queries=altered)
    check_endpoints(dataclasses.replace(subject, evidence=evidence), problems)
    assert [(f.id, f.message.split(";")[0]) for f in problems.below("")] == [
        ("audit.endpoints", "8 samples went to an endpoint whose turn it was not")
    ]


def asked_of(url: str) -> int:
    import urllib.request

    with urllib.request.urlopen(f"{url}/sim/stats") as answer:
        count: int = json.load(answer)["requests"]
    return count


def test_one_dead_server_of_two_is_named(servers: Any, run: Run, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO.format(kind="text"))
    url = f"{servers()},http://127.0.0.1:9"
    done = fairmark(tmp_path, "run", "s.toml", "--sut", "http", "-o", f"base_url={url}", "--out", "out")
    assert (done.returncode, "127.0.0.1:9" in done.stderr) == (3, True), done.stderr


def test_r34_refusals_are_counted_and_never_retried(servers: Any, run: Run) -> None:
    url = servers(faults=("status-429@every=3",))
    record = run(f"base_url={url}", "api=completions")
    queries = rows(record, "queries")
    refused = [q for q in queries if q["failure"]]
    assert {(q["failure"], q["http_status"]) for q in refused} == {("rejected", 429)}
    assert all("Retry-After 2" in q["failure_detail"] for q in refused)
    assert {q["attempts"] for q in queries} == {1}
    assert len(queries) == 12
    assert asked_of(url) == 13


def test_secrets_are_in_no_file(servers: Any, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", "k3y-of-acme")
    monkeypatch.setenv("ACME_TENANT", "t3nant-of-acme")
    record = run(
        f"base_url={servers()}",
        "api=completions",
        "api_key_env=ACME_KEY",
        'headers_env={"X-Tenant":"ACME_TENANT"}',
        'headers={"X-Plain":"seen"}',
    )
    files = [path for path in record["folder"].rglob("*") if path.is_file()]
    contents = [_content(path) for path in files]
    assert not [f for f, c in zip(files, contents, strict=True) if b"k3y-of" in c or b"t3nant-of" in c]
    assert any(b"ACME_TENANT" in content for content in contents)


def _content(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().stream_reader(data).read()
    if path.suffix == ".parquet":
        return data + str(pq.read_table(path).to_pylist()).encode()
    return data
