"""The events of a streamed answer, and their bytes by the server-sent events grammar."""

from __future__ import annotations

from typing import Any, NamedTuple

import orjson

from fairmark_sim.reply import Reply

__all__ = ["Event", "stream_bytes", "stream_events"]


class Event(NamedTuple):
    """One event.

    It leaves ``at_ns`` after the service began and brings the output to ``tokens`` tokens. Without data it
    is a comment.
    """

    at_ns: int
    tokens: int
    data: bytes | None
    bears_tokens: bool = False
    name: str = ""


def stream_events(reply: Reply, reason: str | None, faults: frozenset[str]) -> list[Event]:
    """The events of ``reply`` in order: role, chunks of tokens, finish reason, usage, ``[DONE]``."""
    tokens = [] if "empty" in faults else reply.tokens
    end_ns = reply.times.token_ns(len(tokens) - 1) if tokens else reply.times.ttft_ns
    events: list[Event] = []
    if reply.chat and "no-role" not in faults:
        # At once, as servers do that answer on admission: a trap for whoever takes it for a token.
        events.append(Event(0, 0, _payload(reply, {"delta": {"role": "assistant", "content": ""}})))
    for start in range(0, len(tokens), reply.tokens_per_chunk):
        events.append(_chunk(reply, start, faults))
    if reason is not None:
        usage = reply.usage(len(tokens)) if _usage_rides(reply, faults) else None
        empty: dict[str, Any] = {"delta": {}} if reply.chat else {"text": ""}
        events.append(Event(end_ns, len(tokens), _payload(reply, empty, reason, usage)))
    if reply.include_usage and not faults & {"no-usage", "usage-in-last"}:
        document = {**_envelope(reply), "choices": [], "usage": reply.usage(len(tokens))}
        events.append(Event(end_ns, len(tokens), orjson.dumps(document)))
    if "no-done" not in faults:
        events.append(Event(end_ns, len(tokens), b"[DONE]"))
    return events


def stream_bytes(event: Event, faults: frozenset[str]) -> bytes:
    """``event`` as bytes, with the line ends and fields that ``faults`` ask for."""
    end = b"\r\n" if "crlf" in faults else b"\r" if "cr" in faults else b"\n"
    if event.data is None:
        return b": idle" + end + end
    lines = [b": keep-alive", b"", b":"] if "comments" in faults else []
    if event.name or "fields" in faults:
        lines.append(b"event: " + (event.name or "message").encode())
    if "fields" in faults:
        lines += [b"id: %d" % event.tokens, b"retry: 1500", b"unknown: field"]
    # A line end between two JSON tokens is white space: the joined data lines are the same document.
    data = event.data.replace(b",", b",\n", 1).split(b"\n") if "multi-line" in faults else [event.data]
    field = b"data:" if "no-space" in faults else b"data: "
    lines += [field + line for line in data]
    return end.join(lines) + end + end


def _chunk(reply: Reply, start: int, faults: frozenset[str]) -> Event:
    stop = min(start + reply.tokens_per_chunk, len(reply.tokens))
    text = "".join(reply.tokens[start:stop])
    reasoning = "reasoning" in faults and start < len(reply.tokens) // 2
    choice: dict[str, Any]
    if reply.chat:
        choice = {"delta": {"reasoning_content" if reasoning else "content": text}}
    else:
        choice = {"text": text}
    if "token-ids" in faults:
        choice["token_ids"] = list(range(start + 1, stop + 1))
    usage = reply.usage(stop) if "usage-in-each" in faults else None
    # The chunk is ready when its last token is.
    return Event(reply.times.token_ns(stop - 1), stop, _payload(reply, choice, None, usage), True)


def _usage_rides(reply: Reply, faults: frozenset[str]) -> bool:
    wanted = "usage-in-each" in faults or (reply.include_usage and "usage-in-last" in faults)
    return wanted and "no-usage" not in faults


def _payload(
    reply: Reply, choice: dict[str, Any], reason: str | None = None, usage: dict[str, Any] | None = None
) -> bytes:
    document = {**_envelope(reply), "choices": [{"index": 0, **choice, "finish_reason": reason}]}
    if usage is not None:
        document["usage"] = usage
    return orjson.dumps(document)


def _envelope(reply: Reply) -> dict[str, Any]:
    return {
        "id": f"sim-{reply.number}",
        "object": "chat.completion.chunk" if reply.chat else "text_completion",
        "model": reply.model,
    }
