"""The mock server: built, started on a core of its own, its answers and the stamps it takes."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import psutil

__all__ = ["CHUNKS", "DRIVER_CORE", "SERVER_CORE", "Mock", "Shape", "build", "cores_missing", "mock_server"]

Shape = Literal["json", "stream", "stream-by-chunk"]
"""One document; a stream in one write; a stream in one write per chunk."""

CHUNKS: Final = 32
DRIVER_CORE, SERVER_CORE = 0, 1
_HERE: Final = Path(__file__).parent
_CAPACITY: Final = 4_000_000
_HEAD: Final = "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n{}\r\n\r\n"


def cores_missing() -> str | None:
    """Why driver and server cannot have a core each, or None."""
    if not hasattr(os, "sched_getaffinity"):
        return "this system cannot pin processes to cores"
    if not {DRIVER_CORE, SERVER_CORE} <= os.sched_getaffinity(0):
        return f"cores {DRIVER_CORE} and {SERVER_CORE} are not both usable"
    return None


def build() -> Path | str:
    """Compile the server if it is not there or old; its path, or the reason why it cannot be had."""
    source, program = _HERE / "mock_server.c", _HERE / ".build" / "mock_server"
    if program.exists() and program.stat().st_mtime >= source.stat().st_mtime:
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return "no C compiler for the mock server (on Debian: apt-get install gcc libc6-dev)"
    program.parent.mkdir(exist_ok=True)
    command = [compiler, "-O2", "-Wall", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    return program if done.returncode == 0 else f"the mock server does not compile: {done.stderr.strip()}"


class Mock:
    """A running server.

    Attributes:
        port: on 127.0.0.1.
    """

    def __init__(self, port: int, stamps: Path, process: psutil.Process) -> None:
        self.port = port
        self._process = process
        with stamps.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._cells = np.frombuffer(self._map, dtype=np.int64)

    def forget(self) -> None:
        """Drop the stamps taken so far."""
        self._cells[0] = 0

    @property
    def requests(self) -> int:
        """Requests since `forget`."""
        return int(self._cells[0])

    def arrivals_ns(self) -> npt.NDArray[np.int64]:
        """CLOCK_MONOTONIC of every request since `forget`, ascending."""
        return np.sort(self._cells[1 : 1 + min(self.requests, _CAPACITY)])

    @property
    def cpu_s(self) -> float:
        """CPU time used so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def mock_server(program: Path, shape: Shape, *, busy: bool = False) -> Iterator[Mock]:
    """Run the server on `SERVER_CORE`.

    Args:
        busy: it polls without sleeping, for stamps that are not late.
    """
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
        folder = Path(name)
        parts = answer(shape)
        (folder / "answer").write_bytes(b"".join(b"%d\n%b" % (len(part), part) for part in parts))
        command = [str(program), str(folder / "answer"), str(folder / "stamps"), str(_CAPACITY)]
        process = subprocess.Popen(
            [*command, "busy"] if busy else command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            try:
                os.sched_setaffinity(process.pid, {SERVER_CORE})
                port = int(process.stdout.readline())
                yield Mock(port, folder / "stamps", psutil.Process(process.pid))
            finally:
                process.stdin.close()


def answer(shape: Shape) -> Sequence[bytes]:
    """The bytes of one response, part by part as they are written."""
    if shape == "json":
        message = {"role": "assistant", "content": " word" * CHUNKS}
        body = _json({**_COMMON, "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        return [_HEAD.format("application/json", f"Content-Length: {len(body)}").encode() + body]
    events = [_event({"index": 0, "delta": {"content": " word"}, "finish_reason": None})] * (CHUNKS - 1)
    events.append(_event({"index": 0, "delta": {"content": " end"}, "finish_reason": "stop"}))
    events.append(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
    events[0] = _HEAD.format("text/event-stream", "Transfer-Encoding: chunked").encode() + events[0]
    return [b"".join(events)] if shape == "stream" else events


_COMMON: Final = {"id": "chatcmpl-mock", "object": "chat.completion.chunk", "created": 0, "model": "mock-1"}


def _event(choice: dict[str, object]) -> bytes:
    return _chunk(b"data: " + _json({**_COMMON, "choices": [choice]}) + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
