"""One response, laid out in advance: which bytes leave when, and what happens to the connection then.

`write_script` is pure. The connection plays the script; everything a test wants to know about the truth is in
it before the first byte leaves.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import orjson

from fairmark_sim.reply import Reply
from fairmark_sim.responses import response_document, response_events
from fairmark_sim.stream import Event, stream_bytes, stream_events

__all__ = ["Ending", "Script", "Step", "finished_json", "json_steps", "write_script"]

_SLOW_HEADER_NS = 1_000_000
_OPEN_AFTER_DONE_NS = 30_000_000_000
_RETRY_AFTER_S = 2
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
}


class Ending(Enum):
    """What happens to the connection after the last step."""

    KEEP = "keep"
    CLOSE = "close"
    RESET = "reset"
    HANG = "hang"
    EXIT = "exit"
    REFUSE = "refuse"


class Step(NamedTuple):
    """``data`` leaves ``at_ns`` after the service began and brings the output to ``tokens`` tokens."""

    at_ns: int
    data: bytes
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Script:
    """A response. ``separate`` says that no two steps may share a write."""

    status: int | None
    steps: Sequence[Step]
    ending: Ending
    separate: bool = False


def write_script(reply: Reply, faults: frozenset[str]) -> Script:
    """Lay out the response to ``reply`` with ``faults`` applied."""
    if reply.stream:
        return _refused(faults) or _streamed(reply, faults)
    return _whole(reply, faults)


def _refused(faults: frozenset[str]) -> Script | None:
    """The response where there is no answer at all."""
    immediate = _no_answer(faults)
    status = _status_of(faults)
    if immediate is not None or status is None:
        return immediate
    error = {"error": {"message": f"simulated HTTP {status}", "type": "simulated", "code": status}}
    extra = {"Retry-After": str(_RETRY_AFTER_S)} if status in (429, 503) else {}
    return _finished(json_steps(status, error, 0, faults, extra), faults, status)


def json_steps(
    status: int,
    document: Any,
    at_ns: int,
    faults: frozenset[str] = frozenset(),
    extra: Mapping[str, str] | None = None,
    tokens: int = 0,
) -> list[Step]:
    """A complete response with a JSON body, as head and body in one step."""
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    head = _head(status, "application/json", faults, {"Content-Length": str(len(body)), **(extra or {})})
    return [Step(at_ns, head + body, tokens)]


def _no_answer(faults: frozenset[str]) -> Script | None:
    endings = {
        "refuse": Ending.REFUSE,
        "exit": Ending.EXIT,
        "reset-before": Ending.RESET,
        "close-before": Ending.CLOSE,
        "stall-before": Ending.HANG,
    }
    for kind in faults & endings.keys():
        return Script(None, (), endings[kind])
    return None


def _status_of(faults: frozenset[str]) -> int | None:
    return next((int(kind[7:]) for kind in faults if kind.startswith("status-")), None)


def _head(status: int, content_type: str, faults: frozenset[str], fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS[status]}", f"Content-Type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    if faults & {"close-after", "until-close"}:
        lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _finished(steps: list[Step], faults: frozenset[str], status: int = 200) -> Script:
    """A script whose body is complete: the connection stays, unless a quirk closes it."""
    closing = faults & {"close-after", "close-silently", "until-close"}
    return _shaped(steps, Ending.CLOSE if closing else Ending.KEEP, faults, status)


def _shaped(steps: list[Step], ending: Ending, faults: frozenset[str], status: int = 200) -> Script:
    if "slow-headers" in faults:
        steps = _byte_by_byte(steps)
    return Script(status, steps, ending, separate=bool(faults & {"split", "slow-headers"}))


def _byte_by_byte(steps: list[Step]) -> list[Step]:
    """Send the head of the first step one byte a millisecond and what follows no earlier than its end."""
    first = steps[0]
    end = first.data.index(b"\r\n\r\n") + 4
    slow = [Step(first.at_ns + i * _SLOW_HEADER_NS, first.data[i : i + 1]) for i in range(end)]
    ready = slow[-1].at_ns
    rest = [Step(first.at_ns, first.data[end:], first.tokens), *steps[1:]]
    return slow + [Step(max(s.at_ns, ready), s.data, s.tokens) for s in rest if s.data]


def _whole(reply: Reply, faults: frozenset[str]) -> Script:
    """The answer as one JSON document."""
    tokens = [] if "empty" in faults else list(reply.tokens)
    document = (
        response_document(reply, tokens, _reason(reply, faults), faults)
        if reply.api == "responses"
        else _document(reply, tokens, faults)
    )
    return finished_json(document, reply.end_ns, faults, tokens=len(tokens), number=reply.number)


def finished_json(
    answer: dict[str, Any], at_ns: int, faults: frozenset[str], *, tokens: int = 0, number: int = 0
) -> Script:
    """A response with one JSON document, broken as ``faults`` say."""
    refused = _refused(faults)
    if refused is not None:
        return refused
    document: Any = answer
    if faults & {"error", "error-first"}:
        document = {"error": {"message": "simulated engine error", "type": "server_error", "code": 500}}
    elif "malformed-event" in faults:
        document = orjson.dumps(document)[:-2] + b"!"
    body = document if isinstance(document, bytes) else orjson.dumps(document)
    fields = {} if "until-close" in faults else {"Content-Length": str(len(body))}
    if "malformed-http" in faults:
        fields, body = {"Transfer-Encoding": "chunked"}, b"zz\r\n" + body
    head = _head(200, "application/json", faults, fields)
    cut, ending = _cut_whole(len(body), faults)
    steps = [Step(at_ns, head + body[:cut], tokens)]
    if "split" in faults:
        steps = _split_writes(steps, number)
    return _finished(steps, faults) if ending is None else _shaped(steps, ending, faults)


def _cut_whole(size: int, faults: frozenset[str]) -> tuple[int, Ending | None]:
    if "reset-after" in faults:
        return 1, Ending.RESET
    if "stall" in faults:
        return size // 2, Ending.HANG
    if "truncate" in faults:
        return size // 2, Ending.CLOSE
    return size, Ending.CLOSE if "malformed-http" in faults else None


def _document(reply: Reply, tokens: list[str], faults: frozenset[str]) -> dict[str, Any]:
    text = "".join(tokens)
    reason = _reason(reply, faults)
    choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
    if reply.chat:
        choice["message"] = {"role": "assistant", "content": text}
        if "reasoning" in faults:
            half = len(tokens) // 2
            choice["message"] = {
                "role": "assistant",
                "content": "".join(tokens[half:]),
                "reasoning_content": "".join(tokens[:half]),
            }
    else:
        choice["text"] = text
    if "token-ids" in faults:
        choice["token_ids"] = list(range(1, len(tokens) + 1))
    document: dict[str, Any] = {
        "id": f"sim-{reply.number}",
        "object": "chat.completion" if reply.chat else "text_completion",
        "model": reply.model,
        "choices": [choice],
    }
    if "no-usage" not in faults:
        document["usage"] = reply.usage(len(tokens))
    return document


def _reason(reply: Reply, faults: frozenset[str]) -> str | None:
    if "no-finish" in faults:
        return None
    if "finish-error" in faults:
        return "error"
    return "abort" if "finish-abort" in faults else reply.finish_reason


def _streamed(reply: Reply, faults: frozenset[str]) -> Script:
    """The answer as a stream of events."""
    lay_out = response_events if reply.api == "responses" else stream_events
    events, ending = _broken_off(lay_out(reply, _reason(reply, faults), faults), faults)
    pieces = [Step(e.at_ns, stream_bytes(e, faults), e.tokens) for e in events]
    if "bom" in faults and pieces:
        pieces[0] = Step(pieces[0].at_ns, b"\xef\xbb\xbf" + pieces[0].data, pieces[0].tokens)
    if "split" in faults:
        pieces = _split_writes(pieces, reply.number)
    announced, body = _framed(pieces, ending, faults)
    head = Step(0, _head(200, "text/event-stream", faults, {"Cache-Control": "no-cache", **announced}))
    steps = [head, *body]
    return _finished(steps, faults) if ending is None else _shaped(steps, ending, faults)


def _framed(
    pieces: list[Step], ending: Ending | None, faults: frozenset[str]
) -> tuple[dict[str, str], list[Step]]:
    """The header that announces the body, and the body as it goes over the wire."""
    if "malformed-http" not in faults:
        if "content-length" in faults:
            # A broken stream must fall short of what it announced.
            missing = 0 if ending is None else 1000
            return {"Content-Length": str(sum(len(p.data) for p in pieces) + missing)}, pieces
        if "until-close" in faults:
            return {}, pieces
    body = [Step(p.at_ns, b"%x\r\n%b\r\n" % (len(p.data), p.data), p.tokens) for p in pieces]
    at_ns, tokens = (body[-1].at_ns, body[-1].tokens) if body else (0, 0)
    if "malformed-http" in faults:
        body.append(Step(at_ns, b"zz\r\n", tokens))
    elif ending is None:
        body.append(Step(at_ns, b"0\r\n\r\n", tokens))
    return {"Transfer-Encoding": "chunked"}, body


def _broken_off(events: list[Event], faults: frozenset[str]) -> tuple[list[Event], Ending | None]:
    """The events that are really sent, and how the connection ends when the body stays unfinished."""
    bearing = [i for i, e in enumerate(events) if e.bears_tokens]
    after_half = bearing[(len(bearing) - 1) // 2] + 1 if bearing else len(events)
    half = events[:after_half]
    at_ns, tokens = (half[-1].at_ns, half[-1].tokens) if half else (0, 0)
    if "reset-after" in faults:
        return events[: bearing[0] + 1] if bearing else half, Ending.RESET
    if "stall" in faults:
        return half, Ending.HANG
    if faults & {"truncate", "malformed-http"}:
        return half, Ending.CLOSE
    if "malformed-event" in faults:
        return [*half, Event(at_ns, tokens, b'{"choices": [{"delta"'), *events[after_half:]], None
    if faults & {"error", "error-first"}:
        sent = half if "error" in faults else events[: bearing[0]] if bearing else []
        error = orjson.dumps({"error": {"message": "simulated engine error", "type": "server_error"}})
        return [*sent, Event(at_ns, tokens, error), Event(at_ns, tokens, b"[DONE]")], None
    if "open-after-done" in faults:
        last = events[-1]
        return [*events, Event(last.at_ns + _OPEN_AFTER_DONE_NS, last.tokens, None)], None
    return events, None


def _split_writes(pieces: list[Step], seed: int) -> list[Step]:
    """The same bytes at the same times, cut at arbitrary places; the last part brings the tokens."""
    rng = random.Random(seed)
    parts: list[Step] = []
    before = 0
    for piece in pieces:
        position = 0
        while position < len(piece.data):
            end = min(position + rng.randint(1, 40), len(piece.data))
            whole = end == len(piece.data)
            parts.append(Step(piece.at_ns, piece.data[position:end], piece.tokens if whole else before))
            position = end
        before = piece.tokens
    return parts
