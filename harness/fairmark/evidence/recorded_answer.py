"""What one query's recorded events say: the counterpart of `fairmark.evidence.decode` without a wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fairmark.evidence.decode import Answer, output_sha256
from fairmark.evidence.recorded import CHUNK, ENDS, ChunkRecord, EndingRecord, decode_chunk, decode_ending
from fairmark.wire.response import Event, Response

__all__ = ["recorded_answer"]

_DEFAULT_DETAIL: Final = {
    "timeout": "no event within the query timeout",
    "stalled": "the response did not finish within the query timeout",
    "aborted": "the run ended first",
}
_EMPTY: Final = EndingRecord(None, None, None, None, None)


def recorded_answer(
    records: Iterable[tuple[int, int, bytes]],
    *,
    outcome: int,
    completed_ns: int,
    finish_reason: str | None,
    detail: str | None,
    of_tokens: bool,
) -> tuple[Answer, bytes | None]:
    """The answer of one query, and its data if it is not text.

    Output tokens are those of its token ids, else the engine's own count, else unknown.

    Args:
        records: kind, time and payload of the query's `CHUNK` and `ENDING` records, in order.
        outcome: position in `ENDS`; 0, never ended, is an aborted query.
        completed_ns: when it ended, on the clock of the records.
        of_tokens: whether answers are made of tokens, so that one without any is ``empty``.
    """
    chunks: list[tuple[int, ChunkRecord]] = []
    ending = _EMPTY
    for kind, t_ns, payload in records:
        if kind == CHUNK:
            chunks.append((t_ns, decode_chunk(payload)))
        else:
            ending = decode_ending(payload)
    end = ENDS[outcome] or "aborted"
    response = _response(chunks, ending, finish_reason, _events(chunks, ending, end, completed_ns))
    failure = None if end == "complete" else end
    if failure is None and of_tokens and ending.data is None and not _generated(chunks, response):
        failure, detail = "empty", "a complete answer without any generated token"
    tokens = [t_ns for t_ns, chunk in chunks if chunk.n_tokens != 0]
    answer = Answer(
        response=response,
        first_byte_ns=None,
        first_token_ns=tokens[0] if tokens else None,
        last_token_ns=tokens[-1] if tokens else None,
        failure=failure,
        failure_detail=(detail or _DEFAULT_DETAIL.get(failure)) if failure else None,
        output_sha256=output_sha256(response.text) if response.text else None,
    )
    return answer, ending.data


def _response(
    chunks: list[tuple[int, ChunkRecord]],
    ending: EndingRecord,
    finish_reason: str | None,
    events: list[Event],
) -> Response:
    ids = ending.token_ids
    if ids is None and any(chunk.token_ids is not None for _, chunk in chunks):
        ids = [i for _, chunk in chunks for i in chunk.token_ids or ()]
    counted = ending.output_tokens if ids is None else len(ids)
    source = "ids" if ids is not None else "usage"
    differ = ids is not None and ending.output_tokens not in (None, len(ids))
    return Response(
        http_status=None,
        events=events,
        text="".join(chunk.text for _, chunk in chunks if chunk.kind == "content"),
        reasoning="".join(chunk.text for _, chunk in chunks if chunk.kind == "reasoning"),
        token_ids=ids,
        finish_reason=finish_reason,
        input_tokens=ending.input_tokens,
        input_token_source=None if ending.input_tokens is None else "usage",
        output_tokens=counted,
        output_token_source=None if counted is None else source,
        cached_tokens=ending.cached_tokens,
        flags=("token_counts_differ",) if differ else (),
    )


def _generated(chunks: list[tuple[int, ChunkRecord]], response: Response) -> bool:
    if response.output_tokens is not None:
        return response.output_tokens > 0
    return any(chunk.n_tokens != 0 for _, chunk in chunks)


def _events(
    chunks: list[tuple[int, ChunkRecord]], ending: EndingRecord, end: str, completed_ns: int
) -> list[Event]:
    """The chunks and the end, numbered so that events with one stamp share a number."""
    found = [(t_ns, chunk.kind, chunk.n_tokens) for t_ns, chunk in chunks]
    if end == "complete":
        found.append((completed_ns, "finish", None))
        if any(count is not None for count in ending[:3]):
            found.append((completed_ns, "usage", None))
    events: list[Event] = []
    for t_ns, kind, tokens in found:
        same = events and events[-1].arrival_ns == t_ns
        number = events[-1].read + (not same) if events else 0
        events.append(Event(t_ns, number, kind, tokens))
    return events
