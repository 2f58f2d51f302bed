"""Answers by the Responses API: typed events, and the response object that the last of them repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from fairmark_sim.reply import Reply
from fairmark_sim.stream import Event

__all__ = ["response_document", "response_events"]

_STATUS = {"length": "incomplete", "error": "failed", "abort": "cancelled"}


def response_events(reply: Reply, reason: str | None, faults: frozenset[str]) -> list[Event]:
    """The events of ``reply`` in order; the stream has no end marker but its last event."""
    tokens = [] if "empty" in faults else list(reply.tokens)
    end_ns = reply.times.token_ns(len(tokens) - 1) if tokens else reply.times.ttft_ns
    begun = {"id": f"sim-{reply.number}", "object": "response", "status": "in_progress", "output": []}
    item = {"id": "item-0", "type": "message", "role": "assistant", "content": []}
    events = [
        # At once, as servers do that answer on admission: a trap for whoever takes it for a token.
        _event(0, 0, "response.created", response=begun),
        _event(0, 0, "response.in_progress", response=begun),
        _event(0, 0, "response.output_item.added", item=item),
    ]
    half = len(tokens) // 2 if "reasoning" in faults else 0
    for start in range(0, len(tokens), reply.tokens_per_chunk):
        stop = min(start + reply.tokens_per_chunk, len(tokens))
        name = "response.reasoning_text.delta" if start < half else "response.output_text.delta"
        ready_ns = reply.times.token_ns(stop - 1)
        delta = "".join(tokens[start:stop])
        events.append(_event(ready_ns, stop, name, bears_tokens=True, item_id="item-0", delta=delta))
    events.append(_event(end_ns, len(tokens), "response.output_text.done", text="".join(tokens[half:])))
    if reason is not None:
        document = response_document(reply, tokens, reason, faults)
        name = f"response.{document['status']}"
        events.append(_event(end_ns, len(tokens), name, response=document))
    return events


def response_document(
    reply: Reply, tokens: Sequence[str], reason: str | None, faults: frozenset[str]
) -> dict[str, Any]:
    """The response object; without a ``reason`` it is still in progress."""
    half = len(tokens) // 2 if "reasoning" in faults else 0
    status = "in_progress" if reason is None else _STATUS.get(reason, "completed")
    text = {"type": "output_text", "text": "".join(tokens[half:]), "annotations": []}
    output: list[dict[str, Any]] = [{"type": "message", "role": "assistant", "content": [text]}]
    if half:
        thought = {"type": "reasoning_text", "text": "".join(tokens[:half])}
        output.insert(0, {"type": "reasoning", "summary": [], "content": [thought]})
    usage = {
        "input_tokens": reply.input_tokens,
        "output_tokens": len(tokens),
        "total_tokens": reply.input_tokens + len(tokens),
    }
    return {
        "id": f"sim-{reply.number}",
        "object": "response",
        "model": reply.model,
        "status": status,
        "error": {"code": "server_error", "message": "simulated failure"} if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": output,
        "usage": None if "no-usage" in faults else usage,
    }


def _event(at_ns: int, tokens: int, name: str, *, bears_tokens: bool = False, **fields: Any) -> Event:
    return Event(at_ns, tokens, orjson.dumps({"type": name, **fields}), bears_tokens, name)
