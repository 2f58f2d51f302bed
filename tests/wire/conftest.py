"""Building stored responses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from fairmark.wire.response import Read


class Wire:
    """What a server sends, and how it arrives."""

    HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    END = b"0\r\n\r\n"
    DONE = b"data: [DONE]\n\n"

    @staticmethod
    def chunked(*bodies: bytes) -> bytes:
        """Each body as one HTTP chunk."""
        return b"".join(b"%x\r\n%b\r\n" % (len(b), b) for b in bodies if b)

    @staticmethod
    def reads(*pieces: bytes, step_ns: int = 10) -> list[Read]:
        """One read per piece, ``step_ns`` apart, the first at ``step_ns``."""
        return [Read((i + 1) * step_ns, piece) for i, piece in enumerate(pieces)]

    @staticmethod
    def event(document: Any) -> bytes:
        """``document`` as one event."""
        return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"

    def chat(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> bytes:
        """One event of a streamed chat completion; ``choice`` holds further fields of the choice."""
        choice = {"index": 0, "delta": delta, "finish_reason": reason, **more.pop("choice", {})}
        return self.event({"id": "x", "object": "chat.completion.chunk", "choices": [choice], **more})

    def text(self, text: str, reason: str | None = None) -> bytes:
        """One event of a streamed text completion."""
        return self.event({"id": "x", "choices": [{"index": 0, "text": text, "finish_reason": reason}]})

    def usage(self, prompt: int, completion: int, **more: Any) -> bytes:
        """The event that brings usage and nothing else."""
        counts = {"prompt_tokens": prompt, "completion_tokens": completion, **more}
        return self.event({"id": "x", "choices": [], "usage": counts})

    def stream(self, events: Sequence[bytes], *, head: bytes = HEAD, end: bytes = END) -> list[Read]:
        """A chunked response, one read per event; the head comes with the first, ``end`` with the last."""
        pieces = [self.chunked(event) for event in events] or [b""]
        pieces[0] = head + pieces[0]
        pieces[-1] += end
        return self.reads(*pieces)

    def document(self, body: Any, *, status: str = "200 OK", fields: str = "", **kwargs: Any) -> list[Read]:
        """A response with a JSON body, in one read."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{fields}"
        return self.reads(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data, **kwargs)


@pytest.fixture(scope="session")
def wire() -> Wire:
    """Builds stored responses."""
    return Wire()
