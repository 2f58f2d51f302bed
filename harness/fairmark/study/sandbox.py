"""Running programs that a model wrote, where they can do little harm. Only ever on the user's word.

Each runs in a process of its own with limits on time, memory, files and processes, an empty folder and an
empty environment, without network where the kernel lets a user give it up (user namespaces), without writing
where it has Landlock. That guards against accidents. It is no wall against a program made to break out, and a
program made to cheat can find the word that stands for success.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fairmark.study import sandboxed

__all__ = ["Locks", "locks", "run_program"]

_WALL_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Locks:
    """What a program cannot do here."""

    no_network: bool
    no_writing: bool

    def __str__(self) -> str:
        """In words, for a note to the user."""
        network = "without network" if self.no_network else "WITH network (no user namespaces here)"
        writing = "cannot write files" if self.no_writing else "CAN write files (no Landlock here)"
        return f"answers are run {network} and {writing}"


def run_program(program: str) -> bool:
    """Whether a Python program comes to its end: no error, no early exit, within time and memory."""
    return _ended(program) is not None


def locks() -> Locks:
    """What programs cannot do on this machine.

    Raises:
        RuntimeError: not even an empty program runs, so no answer could pass.
    """
    found = _ended("")
    if found is None:
        raise RuntimeError("the sandbox does not run even an empty program")
    return found


def _ended(program: str) -> Locks | None:
    word = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="fairmark-sandbox-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-I", str(Path(sandboxed.__file__).absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={"PYTHONHASHSEED": "0"},
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(f"{word}\n{program}".encode(), timeout=_WALL_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
    parts = said.decode(errors="replace").split()
    if process.returncode != 0 or len(parts) != 3 or parts[0] != word:
        return None
    return Locks(parts[1] == "1", parts[2] == "1")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it started; the session is its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        process.wait()
