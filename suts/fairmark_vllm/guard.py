"""Ends vLLM's processes when whoever started them is killed.

Run as ``python -m fairmark_vllm.guard STARTER TARGET…``. vLLM computes in processes of its own, which go on
when the one that they answer to is killed. The guard waits for its starter to go. A target is a process, or
a process group when it is negative, as for kill(2). Whoever ends the targets in good order ends the guard.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Final

__all__ = ["end", "start_guard"]

_LOOK_S: Final = 0.5
_GRACE_S: Final = 10.0


def start_guard(targets: Sequence[int]) -> subprocess.Popen[bytes]:
    """Have ``targets`` ended when this process is gone."""
    return subprocess.Popen(
        [sys.executable, "-m", "fairmark_vllm.guard", *map(str, [os.getpid(), *targets])],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(targets: Sequence[int]) -> None:
    """Ask ``targets`` to end, and kill what is left after a while."""
    deadline = time.monotonic() + _GRACE_S
    left = [target for target in targets if _signal(target, signal.SIGTERM)]
    while left and time.monotonic() < deadline:
        time.sleep(0.05)
        left = [target for target in left if _signal(target, 0)]
    for target in left:
        _signal(target, signal.SIGKILL)


def _signal(target: int, number: int) -> bool:
    """Whether ``target`` is there to be signalled."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, number)
        return True
    return False


def main() -> None:
    """Wait, then end."""
    starter, *targets = map(int, sys.argv[1:])
    while os.getppid() == starter:
        time.sleep(_LOOK_S)
    end(targets)


if __name__ == "__main__":
    main()
