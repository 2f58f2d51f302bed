"""fairmark and ``vllm bench serve`` side by side: one vLLM server, the same prompts, the same load.

Both tools send the same questions of GSM8K with the same settings to a server that this script starts, eight
at a time and then as a Poisson process, in the order fairmark, vLLM, vLLM, fairmark, so that a drift of the
machine falls on both. Shown are fairmark's own figures, what vLLM's definitions make of fairmark's run
(``fairmark rosetta``), and what ``vllm bench serve`` printed.

    python -m benchmarks.vllm_bench --model FOLDER --python .venv-vllm/bin/python
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from tabulate import tabulate

from benchmarks.rosetta_peers import VLLM_BENCH
from fairmark_vllm import VllmServeSUT

CONCURRENCY = 8
OUTPUT_TOKENS = 32
EXTRA = json.dumps({"return_token_ids": True})
QUANTITIES = ("ttft", "tpot", "itl", "e2e")
POINTS = ("mean", "p50", "p99")
Numbers = dict[str, float | None]

SCENARIO = """
schema = "fairmark/scenario/1"
name = "vllm-bench"
scenario = "{scenario}"
[model]
name = "{model}"
[samples]
source = "prompts.jsonl"
prompt = "prompt"
input = "text"
performance_sample_count = {queries}
[generation]
max_output_tokens = {output_tokens}
ignore_eos = true
[warmup]
queries = 4
samples = "same"
steady = false
[run]
min_query_count = {queries}
max_query_count = {queries}
query_timeout_s = 600
[settings]
{load}
"""


@contextmanager
def server(model: Path, python: str, logs: Path) -> Iterator[str]:
    """vLLM's server without its prefix cache, which would serve the second tool what the first one asked."""
    options = VllmServeSUT.Options(
        model=str(model), python=python, max_model_len=2048, max_num_seqs=16, prefix_caching=False,
        dtype="bfloat16", enforce_eager=True,
    )  # fmt: skip
    sut = VllmServeSUT(options)
    sut.logs = logs
    try:
        sut.open()
        (endpoint,) = sut.endpoints()
        yield f"http://{endpoint.host}:{endpoint.port}"
    finally:
        sut.close()


def fairmark(address: str, model: str, queries: int, rate: float | None, work: Path) -> list[Numbers]:
    """Its own figures, and those by vLLM's definitions."""
    scenario, load = ("Concurrency", f"concurrency = {CONCURRENCY}")
    if rate is not None:
        scenario, load = ("Server", f"target_qps = {rate}")
    text = SCENARIO.format(
        scenario=scenario, load=load, model=model, queries=queries, output_tokens=OUTPUT_TOKENS
    )
    (work / "s.toml").write_text(text)
    command = [sys.executable, "-m", "fairmark"]
    options = [f"base_url={address}", "api=completions", f"extra={EXTRA}"]
    run = [*command, "run", "s.toml", "--sut", "http", "--out", "run", "--json"]
    done = subprocess.run(
        [*run, *(part for option in options for part in ("-o", option))],
        cwd=work, stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    metrics = json.loads(done.stdout)["record"]["metrics"]["performance"]
    shown = [*command, "rosetta", "run", "--tool", "vllm", "--json"]
    said = subprocess.run(shown, cwd=work, check=True, capture_output=True, text=True)
    (column,) = json.loads(said.stdout)["tools"]
    theirs = {f"{f['quantity']} {f['statistic']}": f["value"] for f in column["figures"]}
    return [_ours(metrics, scenario), theirs]


def _ours(metrics: dict[str, Any], scenario: str) -> Numbers:
    """Latency from the scheduled arrival where there is one, else from the send."""
    origin = "from_schedule" if scenario == "Server" else "from_send"
    found: Numbers = {"completed count": metrics["counts"]["completed"]}
    names = {"ttft": "ttft_ns", "tpot": "tpot_ns", "e2e": "e2e_ns"}
    for quantity, name in names.items():
        summary = metrics["latency"][name]["between_events" if quantity == "tpot" else origin]
        for point in POINTS:
            value = summary.get(f"{point}_ns")
            found[f"{quantity} {point}"] = None if value is None else value / 1e6
    rates = metrics["rates"]
    found["requests rate"] = rates["qps"]
    found["output tokens rate"] = rates["output_tokens_per_s"]
    return found


def vllm(address: str, model: Path, queries: int, rate: float | None, python: str, work: Path) -> Numbers:
    """What ``vllm bench serve`` prints."""
    (work / "bench.py").write_text(VLLM_BENCH)
    arguments = ["--backend", "openai", "--endpoint", "/v1/completions", "--base-url", address]
    arguments += ["--model", model.name, "--tokenizer", str(model), "--dataset-name", "custom"]
    arguments += ["--dataset-path", "prompts.jsonl", "--custom-output-len", str(OUTPUT_TOKENS)]
    arguments += ["--skip-chat-template", "--disable-shuffle", "--num-prompts", str(queries)]
    arguments += ["--temperature", "0", "--ignore-eos", "--extra-body", EXTRA, "--num-warmups", "4"]
    arguments += [
        "--percentile-metrics",
        "ttft,tpot,itl,e2el",
        "--save-result",
        "--result-filename",
        "v.json",
    ]
    arguments += ["--max-concurrency", str(CONCURRENCY)] if rate is None else ["--request-rate", str(rate)]
    subprocess.run([python, "bench.py", *arguments], cwd=work, check=True, stdout=subprocess.DEVNULL)
    told = json.loads((work / "v.json").read_text())
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    points = {"mean": "mean", "p50": "median", "p99": "p99"}
    found: Numbers = {
        f"{quantity} {point}": told[f"{points[point]}_{names[quantity]}_ms"]
        for quantity in QUANTITIES
        for point in POINTS
    }
    found["completed count"] = told["completed"]
    found["requests rate"] = told["request_throughput"]
    found["output tokens rate"] = told["output_throughput"]
    return found


def compare(
    address: str, model: Path, queries: int, rate: float | None, python: str, prompts: Sequence[str]
) -> str:
    """Two runs of each tool under one load, as a table."""
    columns: dict[str, Numbers] = {}
    for number, tool in enumerate(("fairmark", "vllm", "vllm", "fairmark")):
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            rows = (json.dumps({"prompt": prompt}) + "\n" for prompt in prompts[:queries])
            (work / "prompts.jsonl").write_text("".join(rows))
            again = "" if number < 2 else " again"
            if tool == "vllm":
                columns[f"vllm bench{again}"] = vllm(address, model, queries, rate, python, work)
            else:
                own, recomputed = fairmark(address, model.name, queries, rate, work)
                columns[f"fairmark{again}"] = own
                columns[f"fairmark as vllm{again}"] = recomputed
    first = ("fairmark", "fairmark again", "fairmark as vllm", "fairmark as vllm again")
    order = [*first, "vllm bench", "vllm bench again"]
    wanted = [f"{q} {p}" for q in QUANTITIES for p in POINTS]
    wanted += ["requests rate", "output tokens rate", "completed count"]
    body = [[name, *(columns[column].get(name) for column in order)] for name in wanted]
    return tabulate(body, headers=["ms, 1/s", *order], floatfmt=".2f", missingval="–")


def main() -> None:
    """Start the server, compare under both loads, print both tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.vllm_bench", description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--python", default=sys.executable, help="interpreter of an environment with vLLM")
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1.5, help="of the Poisson process, per second")
    options = parser.parse_args()
    questions = files("fairmark.samples.data").joinpath("gsm8k-test.jsonl").read_text("utf-8").splitlines()
    prompts = [json.loads(line)["question"] for line in questions]
    model = options.model.resolve()
    with (
        tempfile.TemporaryDirectory() as logs,
        server(model, options.python, Path(logs)) as address,
    ):
        for rate in (None, options.rate):
            print(f"\n{CONCURRENCY} at a time" if rate is None else f"\nPoisson, {rate:g} per second")
            print(compare(address, model, options.queries, rate, options.python, prompts), flush=True)


if __name__ == "__main__":
    main()
