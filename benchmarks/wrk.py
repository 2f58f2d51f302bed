"""The upper bound: wrk, a C program that reads responses and keeps nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.driver import CONCURRENCY, PATH, body
from benchmarks.mock import DRIVER_CORE, Shape

__all__ = ["missing", "wrk_per_s"]

_RATE: Final = re.compile(r"Requests/sec:\s*([\d.]+)")
_ERRORS: Final = re.compile(r"(Socket errors.*|Non-2xx.*)")


def missing() -> str | None:
    """Why wrk cannot be run, or None."""
    return None if shutil.which("wrk") else "wrk is not installed (on Debian: apt-get install wrk)"


def wrk_per_s(port: int, shape: Shape, *, duration_s: float) -> float:
    """Responses per second of one thread on `DRIVER_CORE`, with the same request as ours.

    Raises:
        RuntimeError: it reported errors, or no rate.
    """
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
        script = Path(name) / "post.lua"
        lines = ['wrk.method = "POST"', f"wrk.body = [=[{body(shape).decode()}]=]"]
        script.write_text("\n".join([*lines, 'wrk.headers["Content-Type"] = "application/json"']))
        command = ["wrk", "-t1", f"-c{CONCURRENCY}", f"-d{max(1, round(duration_s))}s", "-s", str(script)]
        done = subprocess.run(
            [*command, f"http://127.0.0.1:{port}{PATH}"],
            capture_output=True,
            text=True,
            check=True,
            preexec_fn=lambda: os.sched_setaffinity(0, {DRIVER_CORE}),
        )
    rate, errors = _RATE.search(done.stdout), _ERRORS.search(done.stdout)
    if rate is None or errors is not None:
        raise RuntimeError(f"wrk: {errors[0] if errors else done.stdout + done.stderr}")
    return float(rate[1])
