"""The http SUT against llama.cpp's server: every API and way of answering says the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fairmark.sut.options import parse_options
from fairmark_llamacpp.sut import LlamaCppSUT

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.long]

LIMIT, ROWS = 8, 8
SCENARIO = """
schema = "fairmark/scenario/1"
name = "same-answers"
scenario = "Concurrency"
[model]
name = "SmolLM2-135M-Instruct"
[samples]
source = "samples.jsonl"
prompt = "question"
input = "{kind}"
performance_sample_count = {rows}
[generation]
max_output_tokens = {limit}
[warmup]
queries = 0
[run]
min_query_count = {rows}
query_timeout_s = 120
[settings]
concurrency = {concurrency}
"""
# The model's chat template, so that a text completion asks what the chat asks.
CHATML = (
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
)
NATIVE: dict[str, Any] = {
    "schema": "fairmark/http-template/1",
    "path": "/completion",
    "body": {
        "prompt": "{{prompt}}",
        "n_predict": "{{max_tokens}}",
        "temperature": "{{temperature}}",
        "stream": "{{stream}}",
    },
    "answer": {
        "text": "/content",
        "finish_reason": "/stop_type",
        "finish_reasons": {"eos": "stop", "word": "stop", "limit": "length", "none": None},
        "output_tokens": "/tokens_predicted",
        "input_tokens": "/tokens_evaluated",
    },
}
NATIVE["events"] = NATIVE["answer"]
WAYS = [
    ("chat", True, 1),
    ("chat", False, 8),
    ("completions", True, 8),
    ("completions", False, 1),
    ("responses", True, 1),
    ("responses", False, 8),
    ("template", True, 8),
    ("template", False, 1),
]


@pytest.fixture(scope="module")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    sut = LlamaCppSUT(parse_options(LlamaCppSUT.Options, ["slots=8", "context_tokens=256"], sut="llamacpp"))
    sut.logs = tmp_path_factory.mktemp("logs")
    try:
        sut.open()
        endpoint = sut.endpoints()[0]
        yield f"http://{endpoint.host}:{endpoint.port}"
    finally:
        sut.close()


def answers(
    folder: Path, base_url: str, api: str, *, stream: bool, concurrency: int
) -> dict[int, tuple[Any, ...]]:
    """By sample: text, finish reason, input and output tokens. The run and its audit are in order."""
    texts = api in ("completions", "template")
    folder.mkdir()
    questions = [f"What is {n} plus {n + 1}?" for n in range(ROWS)]
    with (folder / "samples.jsonl").open("w") as file:
        for question in questions:
            chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
            prompt = CHATML.format(question=question) if texts else chat
            file.write(json.dumps({"question": prompt}) + "\n")
    kind = "text" if texts else "messages"
    (folder / "s.toml").write_text(
        SCENARIO.format(kind=kind, rows=ROWS, limit=LIMIT, concurrency=concurrency)
    )
    (folder / "native.json").write_text(json.dumps(NATIVE))
    options = [f"base_url={base_url}", f"api={api}", f"stream={stream}"]
    # Reused cache changes the order of additions, and with it near ties.
    options += ['extra={"cache_prompt":false}', *(["template=native.json"] if api == "template" else [])]
    given = [word for option in options for word in ("-o", option)]
    run = fairmark(folder, "run", "s.toml", "--sut", "http", *given, "--out", "out", "--json")
    assert run.stdout, run.stderr
    audit = fairmark(folder, "audit", "out")
    assert audit.stdout.startswith("ok"), audit.stdout
    queries = pq.read_table(folder / "out" / "evidence" / "queries.parquet").to_pylist()
    outputs = pq.read_table(folder / "out" / "evidence" / "outputs.parquet").to_pylist()
    text = {row["seq"]: row["text"] for row in outputs}
    assert {q["failure"] for q in queries} == {None}
    assert all((q["first_token_ns"] is not None) == stream for q in queries)
    return {
        q["sample_index"]: (text[q["seq"]], q["finish_reason"], q["input_tokens"], q["output_tokens"])
        for q in queries
    }


def test_embeddings_of_a_real_model(tmp_path: Path) -> None:
    scenario = SCENARIO.format(kind="data", rows=ROWS, limit=LIMIT, concurrency=2)
    (tmp_path / "s.toml").write_text(scenario)
    words = ("king", "queen", "What is 2 plus 2?")
    rows = (json.dumps({"question": word}) + "\n" for word in words * 3)
    (tmp_path / "samples.jsonl").write_text("".join(rows))
    given = ["-o", "api=embeddings", "-o", "slots=2", "-o", "context_tokens=128"]
    run = fairmark(tmp_path, "run", "s.toml", "--sut", "llamacpp", *given, "--out", "out", "--json")
    assert run.stdout, run.stderr
    audit = fairmark(tmp_path, "audit", "out")
    assert audit.stdout.startswith("ok"), audit.stdout
    queries = pq.read_table(tmp_path / "out" / "evidence" / "queries.parquet").to_pylist()
    outputs = pq.read_table(tmp_path / "out" / "evidence" / "outputs.parquet").to_pylist()
    assert {(q["failure"], q["input_tokens"] > 0, q["output_tokens"]) for q in queries} == {
        (None, True, None)
    }
    word_of = {q["seq"]: words[q["sample_index"] % 3] for q in queries}
    vectors: dict[str, list[np.ndarray]] = {}
    for row in outputs:
        vectors.setdefault(word_of[row["seq"]], []).append(np.frombuffer(row["data"], dtype="<f4"))
    assert len(outputs) == ROWS
    assert len(vectors) > 1
    for word, same in vectors.items():
        # The model's width, at length 1.
        assert same[0].shape == (576,)
        assert np.linalg.norm(same[0]) == pytest.approx(1.0, abs=1e-3)
        # What is computed together moves a vector (0.995 was seen); another text is far away (0.90).
        assert all(np.dot(same[0], vector) > 0.98 for vector in same)
        others = [vector for other in vectors.keys() - {word} for vector in vectors[other]]
        assert all(np.dot(same[0], vector) < 0.95 for vector in others)


def fairmark(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fairmark", *words], cwd=folder, capture_output=True, text=True, timeout=280
    )


def test_every_api_and_way_of_answering_gives_the_same(tmp_path: Path, base_url: str) -> None:
    found = {
        f"{api}-{stream}-{concurrency}": answers(
            tmp_path / f"{api}-{stream}", base_url, api, stream=stream, concurrency=concurrency
        )
        for api, stream, concurrency in WAYS
    }
    expected = found["chat-True-1"]
    assert len({text for text, *_ in expected.values()}) >= 4
    for way, given in found.items():
        # This server calls every response of the Responses API completed, also one that hit its limit.
        told = slice(0, 2) if not way.startswith("responses") else slice(0, 1)
        assert {i: (a[told], a[2:]) for i, a in given.items()} == {
            i: (a[told], a[2:]) for i, a in expected.items()
        }, way
