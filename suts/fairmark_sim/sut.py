"""The ``sim-http`` SUT: the simulated server as a child process, driven like any other endpoint."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import fairmark
from fairmark_sim.faults import parse_rule

__all__ = ["SimHttpSUT"]

_START_TIMEOUT_S = 20.0
_STOP_TIMEOUT_S = 5.0
_DIALECTS = {
    "chat": ("openai-chat", "/v1/chat/completions"),
    "completions": ("openai-completions", "/v1/completions"),
    "responses": ("openai-responses", "/v1/responses"),
    "embeddings": ("openai-embeddings", "/v1/embeddings"),
}


class SimHttpSUT(fairmark.WireSUT):
    """A test instrument: an HTTP server whose times and answers are known and which breaks on demand."""

    @dataclass(frozen=True)
    class Options:
        """The simulated engine."""

        ttft_ms: Annotated[float, "mean time to first token, without queueing"] = 0.0
        ttft_cv: Annotated[float, "its coefficient of variation (log-normal); 0 is constant"] = 0.0
        tpot_ms: Annotated[float, "mean time between tokens"] = 0.0
        tpot_cv: Annotated[float, "its coefficient of variation (log-normal); 0 is constant"] = 0.0
        servers: Annotated[int | None, "requests served at once; default: all"] = None
        output_tokens: Annotated[int, "length of an answer that `answers` does not give"] = 16
        tokens_per_chunk: Annotated[int, "tokens in each event of a stream"] = 1
        answers: Annotated[Path | None, "JSON lines with prompt and text"] = None
        faults: Annotated[tuple[str, ...], "KIND[@rate=P|@every=N|@after=N|@marker=TEXT],..."] = ()
        seed: Annotated[int, "of the drawn times and faults"] = 0
        arrivals: Annotated[Path | None, "where the server writes its own account of the requests"] = None
        loop: Annotated[Literal["asyncio", "uvloop"], "event loop of the server"] = "asyncio"
        api: Annotated[Literal["chat", "completions", "responses", "embeddings"], "which API to drive"] = (
            "chat"
        )
        stream: Annotated[bool, "ask for a stream; without one, as for embeddings, no first token"] = True
        max_in_flight: Annotated[int, "Offline only: samples in flight at once"] = 64

        def __post_init__(self) -> None:
            """Refuse what the server would refuse."""
            for rule in self.faults:
                parse_rule(rule)
            for name in ("ttft_ms", "ttft_cv", "tpot_ms", "tpot_cv"):
                if not 0.0 <= getattr(self, name) < float("inf"):
                    raise ValueError(f"{name} must be finite and at least 0")
            for name in ("output_tokens", "tokens_per_chunk", "max_in_flight"):
                if getattr(self, name) < 1:
                    raise ValueError(f"{name} must be at least 1")
            if self.servers is not None and self.servers < 1:
                raise ValueError("servers must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.dialect = _DIALECTS[options.api][0]
        self.model = "sim"
        self.stream = options.stream and options.api != "embeddings"
        self.max_in_flight = options.max_in_flight
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[bytes] | None = None
        self._address = ("", 0)

    def open(self) -> None:
        """Start the server and wait until it is healthy.

        Raises:
            SutError: it does not start.
        """
        self._log = (self.logs / "sim.log").open("wb") if self.logs else None
        # A session of its own: Ctrl-C in the terminal is the driver's to handle.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairmark_sim.server", *self._arguments()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise fairmark.SutError(f"the simulated server did not start{self._log_tail()}")
        where = json.loads(line)
        self._address = (where["host"], where["port"])
        self._await_health()

    def describe(self) -> Mapping[str, Any]:
        """What it is, and the truth it was given."""
        options = self.options
        return {
            "engine": "fairmark_sim",
            "version": fairmark.__version__,
            "test_instrument": True,
            "simulated": {
                "ttft_ms": options.ttft_ms,
                "ttft_cv": options.ttft_cv,
                "tpot_ms": options.tpot_ms,
                "tpot_cv": options.tpot_cv,
                "servers": options.servers,
                "faults": list(options.faults),
            },
        }

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        """The one endpoint of the started server."""
        return [fairmark.Endpoint(*self._address, _DIALECTS[self.options.api][1])]

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

    def _arguments(self) -> list[str]:
        options = self.options
        arguments = ["--with-parent", "--model", self.model]
        for name in ("ttft_ms", "ttft_cv", "tpot_ms", "tpot_cv", "servers", "output_tokens"):
            arguments += _argument(name, getattr(options, name))
        for name in ("tokens_per_chunk", "answers", "seed", "arrivals", "loop"):
            arguments += _argument(name, getattr(options, name))
        for rule in options.faults:
            arguments += ["--fault", rule]
        return arguments

    def _await_health(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < deadline:
            connection = http.client.HTTPConnection(*self._address, timeout=2.0)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)
            finally:
                connection.close()
        raise fairmark.SutError(f"the simulated server was not healthy in time{self._log_tail()}")

    def _log_tail(self) -> str:
        if self.logs is None:
            return ""
        lines = (self.logs / "sim.log").read_text("utf-8", "replace").strip().splitlines()[-3:]
        return ": " + " | ".join(lines) if lines else ""


def _argument(name: str, value: Any) -> list[str]:
    return [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
