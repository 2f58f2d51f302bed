"""The system under test that does nothing: ``python -m fairmark.drive.null_server [CORE ...]``.

It answers every request with the same short body, as fast as an event loop can. What the driver reaches
against it is what the driver can do on this machine. Prints its port and serves until its input ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Sequence
from typing import Final, cast

__all__ = ["main"]

_BODY: Final = b'{"choices":[{"index":0,"finish_reason":"stop","message":{"content":"0"}}]}'
_RESPONSE: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_BODY),
    _BODY,
)
_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class _Connection(asyncio.Protocol):
    __slots__ = ("_pending", "_size", "_transport")

    def __init__(self) -> None:
        self._pending = b""
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not subclasses

    def data_received(self, data: bytes) -> None:
        # Requests of one connection are alike: a read as long as the last request is one request.
        if len(data) == self._size and not self._pending:
            self._transport.write(_RESPONSE)
            return
        self._pending += data
        while (size := _request_size(self._pending)) is not None and size <= len(self._pending):
            self._size = size
            self._pending = self._pending[size:]
            self._transport.write(_RESPONSE)


def _request_size(data: bytes) -> int | None:
    """Bytes of head and body of the first request in ``data``; None until its head is complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    length = _LENGTH.search(data, 0, end)
    return end + 4 + (int(length[1]) if length else 0)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


def main(cores: Sequence[str]) -> None:
    """Serve, on the given cores if any are given."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores})
    try:
        import uvloop
    except ImportError:
        asyncio.run(_serve())
    else:
        uvloop.run(_serve())


if __name__ == "__main__":
    main(sys.argv[1:])
