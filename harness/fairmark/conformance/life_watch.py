"""Listens to `fairmark.conformance.life`: the steps that were reported, and where a system got stuck."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import psutil

from fairmark.conformance.patience import OPEN_FACTOR
from fairmark.conformance.questions import QUESTIONS, TOKENS
from fairmark.conformance.wire_hand import takes_text
from fairmark.drive.inprocess.plugin import pick_shape
from fairmark.errors import SutError
from fairmark.study.run import SutChoice

__all__ = ["Life", "watch_life"]

_SPARE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Life:
    """What was reported.

    Attributes:
        steps: what was seen in each step, by its name.
        stuck: why there is no more; None if it came to its end.
    """

    steps: Mapping[str, Mapping[str, Any]]
    stuck: str | None


def watch_life(
    choice: SutChoice, folder: Path, kind: str, patience_s: float, *, to_be_killed: bool = False
) -> Life:
    """Take the system through its life.

    Args:
        to_be_killed: its processes are killed in this life, and nothing else is done.

    Raises:
        SutError: it does not open.
    """
    folder.mkdir()
    errors = folder / "stderr.log"
    with errors.open("wb") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "fairmark.conformance.life",
                json.dumps({**_order(choice, folder, kind, patience_s), "to_be_killed": to_be_killed}),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
        try:
            steps, stuck = _listen(process, patience_s)
        finally:
            _end(process)
    if "opened" not in steps and kind != "sim":
        raise SutError(f"the system does not open: {stuck or _tail(errors)}")
    error = steps["opened"].get("error") if "opened" in steps else None
    if error is not None:
        raise SutError(f"open: {error}")
    return Life(steps, stuck)


def _order(choice: SutChoice, folder: Path, kind: str, patience_s: float) -> dict[str, Any]:
    return {
        "name": choice.name,
        "plugins": choice.plugins,
        "options": choice.assignments,
        "kind": kind,
        "shape": pick_shape(choice.cls, "Concurrency"),
        "patience_s": patience_s,
        "logs": str(folder.absolute()),
        "questions": QUESTIONS,
        "tokens": TOKENS,
        "takes_text": takes_text(choice),
    }


def _listen(process: subprocess.Popen[str], patience_s: float) -> tuple[dict[str, Any], str | None]:
    """The steps, and why they stopped before the end."""
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, lines), daemon=True).start()
    steps: dict[str, Any] = {}
    last, failed = "nothing", None
    while True:
        # A step asks at most twice and waits out its patience each time.
        wait_s = 2 * patience_s + _SPARE_S if "opened" in steps else OPEN_FACTOR * patience_s
        try:
            line = lines.get(timeout=wait_s)
        except queue.Empty:
            return steps, f"it did not come back in {wait_s:g} s; the last step was: {last}"
        if not line:
            break
        step = json.loads(line)
        last = step.pop("step")
        steps[last] = step
        if "error" in step:
            failed = failed or f"the step {last} failed: {step['error']}"
    if failed is None and "opened" in steps and "closed" not in steps:
        return steps, f"its process ended; the last step was: {last}"
    return steps, failed


def _read(stream: IO[str], lines: queue.SimpleQueue[str]) -> None:
    for line in stream:
        lines.put(line)
    lines.put("")


def _end(process: subprocess.Popen[str]) -> None:
    """End the process with everything that it started, in sessions of their own too."""
    try:
        started = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        started = []
    for child in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(path: Path) -> str:
    lines = path.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else "no reason was given"
