"""vLLM itself, in process and over HTTP, on the same scenario: complete runs whose counts agree.

Needs an environment with vLLM: `make test-real-vllm`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None, reason="no vLLM here; run: make test-real-vllm"
    ),
]

QUERIES = 16
ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1", **os.environ}
ENGINE = ("max_model_len=2048", "max_num_seqs=16", "dtype=bfloat16", "enforce_eager=true")
# On a CPU vLLM wants this share of all memory to be free when it starts, and two engines are up at a time.
SHARE = 0.2
SCENARIO = """
schema = "fairmark/scenario/1"
name = "vllm"
scenario = "Concurrency"
[model]
name = "SmolLM2-135M-Instruct"
[samples]
source = "fairmark:gsm8k-test"
prompt = "question"
input = "{input}"
performance_sample_count = 64
[generation]
max_output_tokens = 16
ignore_eos = true  # a bare question is one that this model answers with nothing at all
[warmup]
queries = 4
steady = false
[run]
min_query_count = {queries}
query_timeout_s = 300
[settings]
concurrency = {concurrency}
"""


class Run:
    """A finished run, read back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record: dict[str, Any] = json.loads((folder / "run.json").read_text())
        self.metrics = self.record["metrics"]["performance"]

    def rows(self, table: str) -> list[dict[str, Any]]:
        return pq.read_table(self.folder / "evidence" / f"{table}.parquet").to_pylist()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled weights in bfloat16."""
    folder = tmp_path_factory.mktemp("models") / "SmolLM2-135M-Instruct"
    line = [sys.executable, "-m", "benchmarks.make_smollm2", str(folder)]
    subprocess.run(line, cwd=Path(__file__).parents[2], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


@pytest.fixture(scope="module")
def base_url(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all runs that need not start their own."""
    from fairmark_vllm import VllmServeSUT

    options = {"max_model_len": 2048, "max_num_seqs": 16, "dtype": "bfloat16", "enforce_eager": True}
    args = f"--gpu-memory-utilization {SHARE}"
    sut = VllmServeSUT(VllmServeSUT.Options(model=str(model), args=args, **options))
    sut.logs = tmp_path_factory.mktemp("logs")
    try:
        sut.open()
        (endpoint,) = sut.endpoints()
        yield f"http://{endpoint.host}:{endpoint.port}"
    finally:
        sut.close()


def command(tmp_path: Path, sut: str, *options: str, concurrency: int, kind: str, queries: int) -> list[str]:
    text = SCENARIO.format(input=kind, concurrency=concurrency, queries=queries)
    (tmp_path / "s.toml").write_text(text)
    line = [sys.executable, "-m", "fairmark", "run", "s.toml", "--sut", sut, "--out", "run"]
    return line + [part for option in options for part in ("-o", option)]


def run(tmp_path: Path, sut: str, *options: str, concurrency: int, kind: str = "messages") -> Run:
    line = command(tmp_path, sut, *options, concurrency=concurrency, kind=kind, queries=QUERIES)
    done = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return Run(tmp_path / "run")


def check(run: Run, tokenizer: Any, *, streamed: bool = True) -> None:
    """Complete, and every count of tokens agrees with every other."""
    counts = run.metrics["counts"]
    assert (counts["issued"], counts["completed"], counts["failed"]) == (QUERIES, QUERIES, 0)
    assert run.record["outcome"]["stop_reason"] == "complete"
    texts = {row["seq"]: row for row in run.rows("outputs")}
    in_events: Counter[int] = Counter()
    for event in run.rows("events"):
        in_events[event["seq"]] += event["n_tokens"] or 0
    for query in run.rows("queries"):
        output = texts[query["seq"]]
        ids = output["token_ids"]
        assert query["output_token_source"] == "ids"
        assert query["output_tokens"] == len(ids) <= 16
        assert tokenizer.decode(ids, skip_special_tokens=True) == output["text"]
        assert query["finish_reason"] == ("length" if len(ids) == 16 and ids[-1] != 2 else "stop")
        assert query["cached_tokens"] is not None
        if streamed:
            assert in_events[query["seq"]] == len(ids)
            assert query["issued_ns"] < query["first_token_ns"] <= query["last_token_ns"]
            assert query["last_token_ns"] <= query["completed_ns"]
        else:
            assert query["first_token_ns"] is None
    rules = {rule["id"]: rule["outcome"] for rule in run.record["verdict"]["rules"]}
    for rule in ("performance-tokens-counted", "performance-tokens-reconcile", "performance-plan-delivered"):
        assert rules[rule] == "pass", rule


def audited(run: Run) -> str:
    line = [sys.executable, "-m", "fairmark", "audit", str(run.folder)]
    return subprocess.run(line, capture_output=True, text=True).stdout


def vllm_processes() -> set[int]:
    return {p.pid for p in psutil.process_iter(["name"]) if "VLLM::" in (p.info["name"] or "")}


@pytest.mark.parametrize("concurrency", [1, 8])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_over_http(
    tmp_path: Path, base_url: str, tokenizer: Any, api: str, stream: bool, concurrency: int
) -> None:
    options = [f"base_url={base_url}", f"api={api}", f"stream={stream}", 'extra={"return_token_ids":true}']
    messages = "messages" if api == "chat" else "text"
    done = run(tmp_path, "http", *options, concurrency=concurrency, kind=messages)
    check(done, tokenizer, streamed=stream)
    assert audited(done).startswith("ok")


def test_the_servers_own_count_of_tokens_agrees(tmp_path: Path, base_url: str, tokenizer: Any) -> None:
    options = [f"base_url={base_url}", 'extra={"return_token_ids":true}']
    done = run(tmp_path, "http", *options, concurrency=8)
    said = {
        name: [row["value"] for row in done.rows("telemetry") if row["name"] == name]
        for name in ("output_tokens", "input_tokens", "requests_running")
    }
    assert max(said["requests_running"]) <= 8
    queries = done.rows("queries")
    # What was counted before the first look and after the last is not in the difference.
    for name in ("output_tokens", "input_tokens"):
        assert 0 < said[name][-1] - said[name][0] <= sum(query[name] for query in queries)


def test_a_server_of_its_own_is_described_and_stopped(tmp_path: Path, model: Path, tokenizer: Any) -> None:
    before = vllm_processes()
    options = [f"model={model}", *ENGINE, "api=completions", f"args=--gpu-memory-utilization {SHARE}"]
    done = run(tmp_path, "vllm-serve", *options, concurrency=8, kind="text")
    check(done, tokenizer)
    claims = done.record["sut"]["claims"]
    assert (claims["engine"], claims["model"]) == ("vLLM", "SmolLM2-135M-Instruct")
    assert (claims["precision"], claims["accelerator"]) == ("bfloat16", "cpu")
    assert len(claims["weights_sha256"]) == 64
    assert (done.folder / "evidence" / "logs" / "vllm.log").stat().st_size > 0
    assert vllm_processes() == before


@pytest.mark.parametrize("concurrency", [1, 8])
def test_in_process(tmp_path: Path, model: Path, tokenizer: Any, concurrency: int) -> None:
    before = vllm_processes()
    options = [f"model={model}", *ENGINE, f'engine_args={{"gpu_memory_utilization":{SHARE}}}']
    done = run(tmp_path, "vllm", *options, concurrency=concurrency)
    check(done, tokenizer)
    claims = done.record["sut"]["claims"]
    assert (claims["precision"], claims["context_tokens"], claims["slots"]) == ("bfloat16", 2048, 16)
    assert vllm_processes() == before
    assert audited(done).startswith("ok")


@pytest.mark.faults
def test_the_engine_does_not_outlive_a_run_that_is_killed(tmp_path: Path, model: Path) -> None:
    before = vllm_processes()
    options = [f"model={model}", *ENGINE, f'engine_args={{"gpu_memory_utilization":{SHARE}}}']
    line = command(tmp_path, "vllm", *options, concurrency=8, kind="messages", queries=2000)
    coordinator = subprocess.Popen(line, cwd=tmp_path, env=ENVIRONMENT, start_new_session=True)
    journal = tmp_path / "run" / "evidence" / "journal.jsonl"
    while not (journal.exists() and '"phase":"performance"' in journal.read_text()):
        assert coordinator.poll() is None
        time.sleep(0.2)
    assert vllm_processes() > before
    workers = psutil.Process(coordinator.pid).children(recursive=True)
    # The driver's worker goes without a chance to close its engine, and so does whoever started it.
    for process in (coordinator, *(w for w in workers if "fairmark.drive" in " ".join(w.cmdline()))):
        process.kill()
    coordinator.wait()
    while vllm_processes() != before:
        time.sleep(0.2)
