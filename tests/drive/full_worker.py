"""A worker whose disk is full when the last health figures of a phase are written."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from fairmark.drive import worker
from fairmark.drive.health import Health
from fairmark.evidence.store import DiskFullError


def no_space(*_: Any) -> None:
    raise DiskFullError("no space for 4096 bytes of evidence")


def full_at_the_end() -> None:
    stop = Health.stop

    def stop_on_full_disk(self: Health) -> None:
        self._log = SimpleNamespace(health=no_space)  # type: ignore[assignment]
        stop(self)

    Health.stop = stop_on_full_disk  # type: ignore[method-assign]


if __name__ == "__main__":
    full_at_the_end()
    worker.main(sys.argv[1:])
