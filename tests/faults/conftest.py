"""The bench of the driver's tests, and coordinators in processes of their own that can be killed."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from fairmark.evidence.live import LIVE, open_store

_FILE = Path(__file__).parents[1] / "drive" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("drive_bench", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules["drive_bench"] = _MODULE
_SPEC.loader.exec_module(_MODULE)

bench = _MODULE.bench
cache = _MODULE.cache

PATIENCE_S = 60.0


def until(what: str, holds: Callable[[], Any]) -> Any:
    """Wait for ``holds``; a fault test must not hang, so it gives up after a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := holds():
            return found
        time.sleep(0.01)
    raise AssertionError(f"waited a minute for: {what}")


class Coordinator:
    """A run in a process of its own (`coordinator.py`)."""

    def __init__(self, bench: Any, kind: str, sut: Any, *overrides: str, out: Path | None = None) -> None:
        self.folder = out or bench.tmp_path / "killed"
        endpoint = sut.endpoints()[0]
        given = [str(bench.tmp_path), str(self.folder), f"http://{endpoint.host}:{endpoint.port}", kind]
        script = Path(__file__).with_name("coordinator.py")
        self.process = subprocess.Popen(
            [sys.executable, str(script), *given, *overrides], stdout=subprocess.PIPE, text=True
        )

    def await_answers(self, count: int) -> None:
        """Wait until ``count`` samples of the performance phase have been answered."""
        live = self.folder / LIVE
        until("the live store", (live / "layout.json").exists)
        store = open_store(live)
        first, completed = store.first_seq[-1], store.columns().stamps.completed
        until("answers", lambda: sum(1 for t in completed[first:] if t) >= count)

    def workers(self) -> list[psutil.Process]:
        """The worker processes."""
        children = psutil.Process(self.process.pid).children()
        return [c for c in children if "fairmark.drive.worker" in c.cmdline()]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> str:
        """Wait for the end; the last line it printed."""
        printed, _ = self.process.communicate(timeout=PATIENCE_S)
        return printed.strip().splitlines()[-1] if printed.strip() else ""

    @property
    def record(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        return found


@pytest.fixture
def coordinator(bench: Any) -> Iterator[Callable[..., Coordinator]]:
    started: list[Coordinator] = []

    def start(*arguments: Any, **options: Any) -> Coordinator:
        started.append(Coordinator(bench, *arguments, **options))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        if one.process.stdout is not None:
            one.process.stdout.close()
