"""The program inside the sandbox: locks itself in, runs what it reads, and says at the end that it got there.

Started by `fairmark.study.sandbox` as a file of its own; imports nothing of fairmark. Locks that this kernel
does not have are reported, not worked around.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import sys

_NEW_USER_AND_NETWORK = 0x10000000 | 0x40000000  # CLONE_NEWUSER | CLONE_NEWNET
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_CREATE_RULESET, _RESTRICT_SELF = 444, 446  # the same numbers on every architecture
_EVERY_WRITE = 0x1FF2  # Landlock's access rights of its first version, without execute and the two of reading

CPU_SECONDS, MEMORY_BYTES, FILES = 10, 1 << 30, 64


def lock() -> dict[str, bool]:
    """Give up network, writing, memory and time; which of the first two could be given up."""
    libc = ctypes.CDLL(None, use_errno=True)
    network = libc.unshare(_NEW_USER_AND_NETWORK) == 0
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    handled = ctypes.c_uint64(_EVERY_WRITE)
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    writing = ruleset >= 0 and libc.syscall(_RESTRICT_SELF, ruleset, 0) == 0
    limits = {
        resource.RLIMIT_CPU: CPU_SECONDS,
        resource.RLIMIT_AS: MEMORY_BYTES,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: FILES,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in limits.items():
        with contextlib.suppress(ValueError, OSError):  # a lower hard limit is there already
            resource.setrlimit(limit, (value, value))
    return {"no_network": network, "no_writing": writing}


def main() -> None:
    """The first line on stdin is the word to end with, the rest the program."""
    answer = os.dup(1)
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    word, _, program = sys.stdin.read().partition("\n")
    locks = lock()
    if program:
        exec(compile(program, "<answer>", "exec"), {"__name__": "__main__"})
    os.write(answer, f"{word} {int(locks['no_network'])} {int(locks['no_writing'])}".encode())


if __name__ == "__main__":
    main()
