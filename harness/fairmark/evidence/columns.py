"""The evidence contract: tables, columns, types. Facts only; nothing here is derived from other columns.

All times are int64 nanoseconds of CLOCK_MONOTONIC relative to the measured phase's epoch (warm-up is
negative), null where the thing did not happen. `seq` identifies one issued sample and joins all tables.
`docs/evidence.md` and ``schemas/evidence.schema.json`` describe the same contract for readers.
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = [
    "CONTRACT",
    "EVENTS",
    "EVENT_KINDS",
    "FAILURES",
    "FLAGS",
    "HEALTH",
    "OUTPUTS",
    "PHASES",
    "PLAN",
    "QUERIES",
    "READS",
    "SAMPLES",
    "TELEMETRY",
    "TOKEN_SOURCES",
    "EventKind",
    "Failure",
    "Phase",
    "TokenSource",
]

CONTRACT: Final = "fairmark/evidence/3"

Phase = Literal["warmup", "performance", "accuracy"]
PHASES: Final[tuple[Phase, ...]] = ("warmup", "performance", "accuracy")

EventKind = Literal["role", "content", "reasoning", "tool", "finish", "usage", "end", "error"]
EVENT_KINDS: Final[tuple[EventKind, ...]] = (
    "role",
    "content",
    "reasoning",
    "tool",
    "finish",
    "usage",
    "end",
    "error",
)

TokenSource = Literal["ids", "usage", "tokenizer"]
TOKEN_SOURCES: Final[tuple[TokenSource, ...]] = ("ids", "usage", "tokenizer")

Failure = Literal[
    "connect",
    "timeout",
    "stalled",
    "http_status",
    "rejected",
    "malformed",
    "truncated",
    "aborted",
    "engine_error",
    "cancelled",
    "empty",
]
FAILURES: Final[dict[Failure, str]] = {
    "connect": "no connection could be made, or it broke before any response byte",
    "timeout": "no response byte within the query timeout",
    "stalled": "a response began and did not finish within the query timeout",
    "http_status": "the server answered with a status other than 200, 429 or 503",
    "rejected": "the server refused the query because of load (429 or 503)",
    "malformed": "the response cannot be read by its protocol",
    "truncated": "the response ended without a finish reason or without a clean end of its body",
    "aborted": "the run was ended while the query was in flight",
    "engine_error": "the engine reported an error inside its response, or raised one",
    "cancelled": "the server says that it cancelled the query",
    "empty": "a complete response without any generated token",
}
"""The closed list of failure kinds, with what each means."""

FLAGS: Final = (
    "token_counts_differ",
    "extra_choices",
    "tokens_after_finish",
    "no_end_marker",
    "unfinished_event",
    "data_after_end_marker",
    "bytes_after_end",
    "not_streamed",
    "streamed_unasked",
)
"""The closed list of remarks that decoders make about responses; docs/evidence.md says what each means."""

# Column name -> Arrow type, as pyarrow spells it in `pyarrow.type_for_alias`, or "dictionary" for
# low-cardinality strings. pyarrow itself is imported only where tables are written or read.

QUERIES: Final[dict[str, str]] = {
    "seq": "int64",  # unique per issued sample, in plan order; LoadGen's seq_id
    "query": "int64",  # groups the samples of one query (MultiStream, Offline)
    "sample_index": "int64",
    "repetition": "int32",
    "phase": "dictionary",
    "worker": "int32",
    "scheduled_ns": "int64",  # null in closed loops, where it equals issued_ns
    "issued_ns": "int64",  # the driver decided to send
    "sent_ns": "int64",  # the request was handed to the socket or the engine
    "first_byte_ns": "int64",
    "first_token_ns": "int64",  # first event with at least one generated token of any kind
    "last_token_ns": "int64",
    "completed_ns": "int64",  # end of the response; of the failure, for failed queries
    "input_tokens": "int64",
    "input_token_source": "dictionary",
    "output_tokens": "int64",
    "output_token_source": "dictionary",
    "cached_tokens": "int64",
    "attempts": "int32",
    "connection_new": "bool",
    "endpoint": "int32",  # position in the record's requests.endpoints; null without a wire
    "finish_reason": "dictionary",
    "failure": "dictionary",
    "failure_detail": "string",
    "http_status": "int32",
    "flags": "dictionary",  # what the decoder remarked, sorted, with spaces between
    "output_sha256": "string",
}

EVENTS: Final[dict[str, str]] = {
    "seq": "int64",
    "arrival_ns": "int64",
    "read": "int32",  # number of the read within the response; equal read = shared stamp
    "kind": "dictionary",
    "n_tokens": "int32",  # null when the wire does not say
}

READS: Final[dict[str, str]] = {
    "seq": "int64",
    "arrival_ns": "int64",
    "offset": "int64",  # into the uncompressed wire stream of this worker
    "size": "int32",
    "worker": "int32",
}

OUTPUTS: Final[dict[str, str]] = {
    "seq": "int64",
    "text": "string",
    "reasoning": "string",
    "token_ids": "list<int32>",
    "data": "binary",
}

PLAN: Final[dict[str, str]] = {
    "phase": "dictionary",
    "seq": "int64",
    "query": "int64",
    "sample_index": "int64",
    "scheduled_ns": "int64",  # null in closed loops
}

SAMPLES: Final[dict[str, str]] = {
    "index": "int64",
    "row": "string",  # RFC 8785 JSON of the used columns: the bytes the content digest is made of
}

HEALTH: Final[dict[str, str]] = {
    "worker": "int32",
    "t_ns": "int64",
    "name": "dictionary",  # loop_stall_ns, gc_pause_ns, cpu_fraction, steal_fraction, open_connections, ...
    "value": "double",
}

TELEMETRY: Final[dict[str, str]] = {
    "source": "dictionary",
    "t_ns": "int64",
    "name": "dictionary",
    "value": "double",
}
