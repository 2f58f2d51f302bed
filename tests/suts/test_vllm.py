"""The vLLM plugins without vLLM: what they refuse, and that nothing of a server outlives a run."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import psutil
import pytest

from fairmark import Chunk, Done, Sample
from fairmark.errors import InputError, SutError
from fairmark.scenario.model import Generation
from fairmark.sut.options import parse_options
from fairmark_vllm import VllmServeSUT, VllmSUT
from fairmark_vllm.model import find_model, weights_sha256

# Stands in for the interpreter of an environment with vLLM. What it serves is decided by its argument.
FAKE_PYTHON = """#!{python}
import json, os, subprocess, sys, time
if sys.argv[1] == "-c":
    print("vllm.entrypoints.openai.api_server")
    sys.exit()
arguments = sys.argv[1:]
{behaviour}
"""

SERVES = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = b'{"version":"0.0-fake"}' if self.path == "/version" else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
print("Initializing a V1 LLM engine (v0) with config: dtype=torch.bfloat16, max_seq_len=2048, "
      "quantization=None, device_config=cpu, enable_prefix_caching=True, speculative_config=None", flush=True)
print(json.dumps({"arguments": arguments, "cwd": os.getcwd()}), flush=True)
"""
ENGINE_CORE = """
stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
print(json.dumps({"pids": [os.getpid(), child.pid]}), flush=True)
"""
FOREVER = (
    'HTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Handler).serve_forever()\n'
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], str]:
    def make(behaviour: str) -> str:
        path = tmp_path / "fake-python"
        path.write_text(FAKE_PYTHON.format(python=sys.executable, behaviour=behaviour))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    return make


def test_each_sample_is_generated_as_it_asks(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = ModuleType("vllm.sampling_params")
    params.RequestOutputKind = SimpleNamespace(DELTA="delta")  # type: ignore[attr-defined]
    vllm = ModuleType("vllm")
    vllm.SamplingParams = SimpleNamespace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", vllm)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)
    limits = []

    class Engine:
        def get_tokenizer(self) -> None:
            return None

        async def generate(self, prompt: Any, params: Any, _: str) -> AsyncIterator[Any]:
            limits.append(params.max_tokens)
            answer = SimpleNamespace(token_ids=[1], text="a", finish_reason="length")
            ids = prompt["prompt_token_ids"]
            yield SimpleNamespace(outputs=[answer], finished=True, prompt_token_ids=ids, num_cached_tokens=0)

    sut = VllmSUT(VllmSUT.Options(model=str(model)))
    sut._engine = Engine()
    samples = [
        Sample(i, {}, None, Generation(max_output_tokens=n), token_ids=(7,)) for i, n in enumerate((3, 9))
    ]
    sut.load(samples[:1])
    sut.load(samples[1:])

    async def ask() -> None:
        for sample in (*samples, samples[0]):
            assert [type(event) async for event in sut.generate(sample)] == [Chunk, Done]

    asyncio.run(ask())
    assert limits == [3, 9, 3]


def serve(tmp_path: Path, **options: Any) -> VllmServeSUT:
    sut = VllmServeSUT(VllmServeSUT.Options(**options))
    sut.logs = tmp_path / "logs"
    sut.logs.mkdir(exist_ok=True)
    return sut


def logged(tmp_path: Path, key: str) -> Any:
    """What the fake server printed under ``key``; waited for."""
    log = tmp_path / "logs" / "vllm.log"
    while True:
        for line in log.read_text().splitlines() if log.exists() else ():
            if line.startswith("{") and key in (said := json.loads(line)):
                return said[key]
        time.sleep(0.02)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def wait_until(done: Callable[[], bool]) -> None:
    while not done():
        time.sleep(0.05)


@pytest.mark.parametrize("args", ["--port 80", "--host=0.0.0.0", "--api-key x", "--served-model-name m"])
def test_arguments_that_the_plugin_decides_are_refused(args: str) -> None:
    with pytest.raises(InputError, match="args must not hold"):
        parse_options(VllmServeSUT.Options, ["model=x", f"args={args}"], sut="vllm-serve")


def test_engine_arguments_that_are_options_are_refused() -> None:
    with pytest.raises(InputError, match="engine_args must not hold dtype"):
        parse_options(VllmSUT.Options, ["model=x", 'engine_args={"dtype":"half"}'], sut="vllm")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no model here"):
        find_model(str(tmp_path))


def test_weights_are_digested_file_by_file(model: Path) -> None:
    one = hashlib.sha256(b"weights").hexdigest()
    assert weights_sha256(model) == one
    (model / "a.safetensors").write_bytes(b"more")
    assert weights_sha256(model) == [hashlib.sha256(b"more").hexdigest(), one]
    assert weights_sha256(model.parent) is None


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_both_say_what_is_missing(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match="needs vLLM, which is not installed"):
        VllmSUT(VllmSUT.Options(str(model))).open()
    with pytest.raises(InputError, match="vLLM is not installed there"):
        serve(tmp_path, model=str(model)).open()


def test_an_interpreter_that_is_none_is_named(tmp_path: Path, model: Path) -> None:
    with pytest.raises(InputError, match=r"python: cannot be run: No such file"):
        serve(tmp_path, model=str(model), python=str(tmp_path / "nothing")).open()


def test_a_server_is_described_by_what_it_says_and_leaves_nothing(
    tmp_path: Path, model: Path, python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "a secret")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    sut = serve(
        tmp_path,
        model=str(model),
        python=python(SERVES + FOREVER),
        args="--max-num-batched-tokens 64",
        cores=(0,),
    )
    try:
        sut.open()
        claims = dict(sut.describe())
        guard, server = sut._guard, sut._process
    finally:
        sut.close()
    assert guard is not None
    assert server is not None
    assert not alive(guard.pid)
    assert not alive(server.pid)
    assert claims["engine"] == "vLLM"
    assert claims["version"] == "0.0-fake"
    assert claims["weights_sha256"] == hashlib.sha256(b"weights").hexdigest()
    assert (claims["precision"], claims["context_tokens"]) == ("bfloat16", 2048)
    assert (claims["quantization"], claims["kv_cache_precision"]) == (None, None)
    assert claims["prompt_cache"] is True
    assert claims["environment"] == {
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
        "VLLM_NO_USAGE_STATS": "1",
    }
    arguments = logged(tmp_path, "arguments")
    assert claims["flags"] == arguments[arguments.index("--dtype") :]
    assert arguments[-2:] == ["--max-num-batched-tokens", "64"]
    assert logged(tmp_path, "cwd") == str(model.parent)
    assert str(model) not in " ".join(arguments)


def test_the_engine_core_dies_with_its_server(
    tmp_path: Path, model: Path, python: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairmark_vllm.guard._GRACE_S", 0.2)
    sut = serve(tmp_path, model=str(model), python=python(SERVES + ENGINE_CORE + FOREVER))
    try:
        sut.open()
        pids = logged(tmp_path, "pids")
        assert all(map(alive, pids))
    finally:
        sut.close()
    wait_until(lambda: not any(map(alive, pids)))


def test_a_server_that_ends_while_starting_shows_its_last_words(
    tmp_path: Path, model: Path, python: Callable[[str], str]
) -> None:
    sut = serve(tmp_path, model=str(model), python=python('sys.exit("no such device")'))
    try:
        with pytest.raises(SutError, match="ended while starting: no such device"):
            sut.open()
    finally:
        sut.close()


def test_a_server_that_is_never_healthy_is_given_up(
    tmp_path: Path, model: Path, python: Callable[[str], str]
) -> None:
    sut = serve(tmp_path, model=str(model), python=python("time.sleep(600)"), start_timeout_s=0.5)
    try:
        with pytest.raises(SutError, match=r"not healthy after 0\.5 s"):
            sut.open()
    finally:
        sut.close()


@pytest.mark.faults
def test_nothing_is_left_when_the_starter_is_killed(
    tmp_path: Path, model: Path, python: Callable[[str], str]
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from fairmark_vllm import VllmServeSUT as S\n"
        f"sut = S(S.Options(model={str(model)!r}, python={python(SERVES + ENGINE_CORE + FOREVER)!r}))\n"
        f"sut.logs = Path({str(tmp_path / 'logs')!r}); sut.open()\n"
        "print('open', flush=True); time.sleep(600)\n"
    )
    (tmp_path / "logs").mkdir()
    starter = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "open\n"
    guards = psutil.Process(starter.pid).children()
    pids = logged(tmp_path, "pids")
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not any(alive(p) for p in (*pids, *(g.pid for g in guards))))
