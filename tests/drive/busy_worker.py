"""A worker whose client is busy with something else: ``FAIRMARK_TEST_BUSY`` says with what.

``dawdle``: 3 ms of work between the end of a query and what follows from it. ``hold``: every 20 ms the loop
is held up for 10. ``spin``: the loop never rests, though no turn of it is long.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import Any

from fairmark.drive import worker
from fairmark.drive.policy import ClosedLoop


def dawdle() -> None:
    finished = ClosedLoop.completed

    def slow(self: ClosedLoop, *given: int) -> None:
        end = time.monotonic() + 0.003
        while time.monotonic() < end:
            pass
        finished(self, *given)

    ClosedLoop.completed = slow  # type: ignore[method-assign]


def in_the_loop(turn: Any) -> None:
    run = worker.Worker.run

    async def busy(self: worker.Worker) -> None:
        asyncio.get_running_loop().call_soon(turn)
        await run(self)

    worker.Worker.run = busy  # type: ignore[method-assign]


def hold() -> None:
    time.sleep(0.010)
    asyncio.get_running_loop().call_later(0.010, hold)


def spin() -> None:
    asyncio.get_running_loop().call_soon(spin)


if __name__ == "__main__":
    busy = os.environ["FAIRMARK_TEST_BUSY"]
    if busy == "dawdle":
        dawdle()
    else:
        in_the_loop({"hold": hold, "spin": spin}[busy])
    worker.main(sys.argv[1:])
