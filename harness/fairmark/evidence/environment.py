"""The machine that drove the run: an allow-list of facts, with nothing that names a person or a path."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import psutil

__all__ = ["environment", "hashed_host"]

_SALT: Final = b"fairmark/host/1"
_PACKAGES: Final = (
    "fairmark",
    "httptools",
    "numpy",
    "orjson",
    "psutil",
    "pyarrow",
    "scipy",
    "uvloop",
    "zstandard",
)


def hashed_host() -> str:
    """A name for this host that is the same in every run and says nothing about it."""
    return hashlib.sha256(_SALT + socket.gethostname().encode()).hexdigest()[:16]


def environment() -> dict[str, Any]:
    """Hardware, kernel, Python, package versions and present load. What is not known is null."""
    memory = psutil.virtual_memory()
    return {
        "utc": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "clock": _anchor(),
        "host": hashed_host(),
        "cpu_model": _cpu_model(),
        "cores_logical": psutil.cpu_count(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_usable": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "governor": _line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "memory_bytes": memory.total,
        "memory_available_bytes": memory.available,
        "load_1min": os.getloadavg()[0],
        "system": platform.system(),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "python_implementation": sys.implementation.name,
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _anchor() -> dict[str, int]:
    """The wall clock and CLOCK_MONOTONIC at one moment, in µs: the closest of a few tries."""
    tries = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, wall, after = min(tries, key=lambda one: one[2] - one[0])
    return {"wall_us": wall // 1000, "monotonic_us": (before + after) // 2000}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _cpu_model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else None
