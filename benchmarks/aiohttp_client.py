"""The usual way to write a load generator in Python: aiohttp on uvloop, which reads responses whole.

``python -m benchmarks.aiohttp_client URL BODY-FILE CONCURRENCY SECONDS`` prints its CPU time per response in
microseconds and its responses per second, both without its start. It parses no event and records nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import uvloop

_WARMUP_S = 0.3


async def _load(url: str, body: bytes, concurrency: int, duration_s: float) -> tuple[float, float]:
    done = 0
    headers = {"Content-Type": "application/json"}
    connector = aiohttp.TCPConnector(limit=concurrency)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def one_after_another() -> None:
            nonlocal done
            while True:
                async with session.post(url, data=body) as response:
                    async for _ in response.content.iter_any():
                        pass
                    if response.status != 200:
                        raise RuntimeError(f"HTTP {response.status}")
                done += 1

        async with asyncio.TaskGroup() as clients:
            running = [clients.create_task(one_after_another()) for _ in range(concurrency)]
            await asyncio.sleep(_WARMUP_S)
            before = done, time.process_time(), time.monotonic()
            await asyncio.sleep(duration_s)
            count, cpu_s, wall_s = (
                now - then
                for now, then in zip((done, time.process_time(), time.monotonic()), before, strict=True)
            )
            for client in running:
                client.cancel()
    return cpu_s / count * 1e6, count / wall_s


def main(arguments: Sequence[str]) -> None:
    """Load and report."""
    url, body, concurrency, duration_s = arguments
    load = _load(url, Path(body).read_bytes(), int(concurrency), float(duration_s))
    print(*uvloop.run(load))


if __name__ == "__main__":
    main(sys.argv[1:])
