"""Responses of the OpenAI HTTP API, streamed or whole, read into events and terminal facts.

Every server-sent event with at least one choice, with usage, with an error or with the end marker becomes one
`Event`, of the most telling kind it has: content, reasoning, tool, finish, usage, role. So the number of
events is the number of messages, and what another tool measured from messages can be recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairmark.wire import sse
from fairmark.wire.growing import GrowingAnswer, error_in
from fairmark.wire.http1 import Message, deframe
from fairmark.wire.json_text import NotJsonError, join_text, loads, one_line
from fairmark.wire.response import Event, Read, Response

__all__ = ["decode"]

_REJECTED: Final = frozenset({429, 503})
_CANCELLED: Final = frozenset({"abort", "aborted", "cancelled", "canceled"})
_END_MARKER: Final = b"[DONE]"
_new_tuple: Final = tuple.__new__


def decode(
    reads: Sequence[Read],
    *,
    closed: bool,
    stream: bool | None,
    answer: GrowingAnswer,
) -> Response:
    """Read a stored response into ``answer``, which is new and knows what this API's documents say."""
    message = deframe(reads, closed=closed)
    refused = _without_answer(message, reads)
    if refused is not None:
        return refused
    if _is_stream(message, stream):
        events = _streamed(message, reads, answer)
        if stream is False:
            answer.flags.add("streamed_unasked")
    else:
        events = _whole(message, reads, answer)
        if stream:
            answer.flags.add("not_streamed")
    if message.surplus:
        answer.flags.add("bytes_after_end")
    return _response(message, answer, events)


def _without_answer(message: Message, reads: Sequence[Read]) -> Response | None:
    """The response when there is no answer of the model in it to be read."""
    status = message.status
    if not any(read.data for read in reads):
        return Response(
            None, failure="connect", failure_detail="the connection broke before any response byte"
        )
    if status is None:
        if message.error is not None:
            return Response(None, failure="malformed", failure_detail=f"not HTTP/1.1: {message.error}")
        return Response(None, failure="truncated", failure_detail="ended inside the response head")
    if status != 200:
        kind = "rejected" if status in _REJECTED else "http_status"
        return Response(status, failure=kind, failure_detail=_status_detail(message))
    coding = message.headers.get("content-encoding", "identity")
    if coding.lower() != "identity":
        detail = f"the body is encoded as {coding}, which was not accepted"
        return Response(status, failure="malformed", failure_detail=detail)
    return None


def _status_detail(message: Message) -> str:
    retry_after = message.headers.get("retry-after")
    parts = [f"HTTP {message.status}"]
    if retry_after is not None:
        parts.append(f"Retry-After {retry_after}")
    excerpt = one_line(_error_text(message.body) or message.body.decode("utf-8", "replace"))
    return ", ".join(parts) + (f": {excerpt}" if excerpt else "")


def _error_text(body: bytes) -> str | None:
    """The message in an error document, or None."""
    try:
        document = loads(body)
    except NotJsonError:
        return None
    return error_in(document, b"") if isinstance(document, dict) else None


def _is_stream(message: Message, stream: bool | None) -> bool:
    """The content type decides; what was asked for decides only where it is neither of the two."""
    media_type = message.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == "text/event-stream":
        return True
    return stream is True and media_type != "application/json"


def _streamed(message: Message, reads: Sequence[Read], answer: GrowingAnswer) -> list[Event]:
    events: list[Event] = []
    sent = sse.events(message.body)
    known, ends = message.ends, sent.ends
    read = position = 0
    while position < len(ends):
        alike = answer.take_alike(sent.data, sent.names, position)
        for end in ends[position : position + alike]:
            while known[read] < end:
                read += 1
            # Half the price of Event(…), which is a Python function.
            events.append(_new_tuple(Event, (reads[read].arrival_ns, read, "content", None)))
        position += alike
        if position == len(ends):
            break
        data, end = sent.data[position], ends[position]
        position += 1
        if not data:
            continue
        while known[read] < end:
            read += 1
        arrival_ns = reads[read].arrival_ns
        marked = data.startswith(b"[") and data.strip() == _END_MARKER
        if marked:
            answer.ended = True
            events.append(Event(arrival_ns, read, "end"))
        else:
            kind, n_tokens = answer.take(data, sent.names[position - 1])
            if kind is not None:
                events.append(Event(arrival_ns, read, kind, n_tokens))
        if answer.ended:
            # Where the protocol has an end of its own, some servers add the marker.
            if any(marked or late.strip() != _END_MARKER for late in sent.data[position:] if late):
                answer.flags.add("data_after_end_marker")
            break
    if not answer.ended:
        answer.flags.add("no_end_marker")
    if sent.rest:
        answer.flags.add("unfinished_event")
    return events


def _whole(message: Message, reads: Sequence[Read], answer: GrowingAnswer) -> list[Event]:
    """One document: it has an end but no first token, so it yields a single event."""
    if not message.complete:
        return []
    read = len(reads) - 1 if message.end_read is None else message.end_read
    kind, _ = answer.take(message.body, b"")
    if kind in (None, "usage"):
        answer.fail(
            "malformed", f"no answer in the document: {one_line(message.body.decode('utf-8', 'replace'))}"
        )
    answer.ended = True
    return [Event(reads[read].arrival_ns, read, "finish" if answer.failure is None else "error")]


def _response(message: Message, answer: GrowingAnswer, events: list[Event]) -> Response:
    failure, detail = _failure(message, answer)
    input_tokens, input_source = answer.input_tokens()
    output_tokens, output_source = answer.output_tokens()
    return Response(
        http_status=message.status,
        events=events,
        text=join_text(answer.text),
        reasoning=join_text(answer.reasoning),
        token_ids=answer.ids(),
        data=answer.data,
        finish_reason=answer.finish_reason,
        input_tokens=input_tokens,
        input_token_source=input_source,
        output_tokens=output_tokens,
        output_token_source=output_source,
        cached_tokens=answer.cached_tokens(),
        failure=failure,
        failure_detail=detail,
        flags=tuple(sorted(answer.flags)),
    )


def _failure(message: Message, answer: GrowingAnswer) -> tuple[str | None, str | None]:
    """The failure of an answer with status 200, the most specific first."""
    reason = answer.finish_reason
    if answer.failure is not None:
        return answer.failure, answer.failure_detail
    if message.error is not None:
        return "malformed", f"the body's framing is broken: {message.error}"
    if reason == "error":
        return "engine_error", "finish reason 'error'"
    if reason in _CANCELLED:
        return "cancelled", f"finish reason {reason!r}"
    # A body that only the close would end is over at the end marker, however long the socket stays open.
    ended_by_marker = message.framing == "close" and answer.ended
    if not message.complete and not ended_by_marker:
        return "truncated", f"truncated: the body (framing: {message.framing}) did not end"
    if answer.data is not None:
        # What is not text has no finish reason: all there can be to end it is the end of its body.
        return None, None
    if reason is None and not answer.generated and answer.ended:
        return "empty", "the response ended without any token and without a finish reason"
    if reason is None:
        return "truncated", "truncated: no finish reason" + ("" if answer.ended else " and no end marker")
    if not answer.generated:
        return "empty", "no token was generated"
    return None, None
