"""Events that a system in the driver's process reports, as records of a worker's log.

There are no bytes of a wire to decode after the run: what the driver stamped is the fact. A chunk is a
record. The end of a query is a stamp in the columns; what an end carries beyond its finish reason (token
counts, ids, data) is a record too. Finish reasons are named once and numbered in the column ``status``.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairmark.evidence.columns import EVENT_KINDS, FAILURES

__all__ = [
    "CHUNK",
    "ENDING",
    "ENDINGS",
    "ENDS",
    "EVENTS",
    "MOST_TOKENS",
    "REASON",
    "VIOLATION",
    "VIOLATIONS",
    "ChunkRecord",
    "EndingRecord",
    "decode_chunk",
    "decode_ending",
    "decode_endings",
    "encode_chunk",
    "encode_ending",
    "encode_endings",
]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

EVENTS: Final = "events"
"""In place of a dialect: the events were recorded, not decoded."""

CHUNK: Final = 4
ENDING: Final = 5
REASON: Final = 6
VIOLATION: Final = 7
ENDINGS: Final = 8
"""Kinds of log records, beside those of `fairmark.evidence.store`: a chunk; what a `Done` carries; the name
of finish reason number ``seq``; a breach of the plugin contract, its payload the kind's position in
`VIOLATIONS` and a remark; the token counts of samples that ended together, ``seq`` and those that follow."""

ENDS: Final[tuple[str, ...]] = ("", "complete", *FAILURES)
"""How a query ended; the column ``outcome`` holds the position in this tuple."""

VIOLATIONS: Final = (
    "unknown_seq",
    "not_issued",
    "ended_twice",
    "after_end",
    "no_end",
    "wrong_type",
    "unknown_failure",
)
"""What a plugin may not do: report a query that does not exist, or that was not issued; end one twice; go on
with one that has ended; stop without an end; report what is not an event; fail with a kind that is not in
`FAILURES`."""

_CHUNK: Final = struct.Struct("<iii")
_ENDING: Final = struct.Struct("<qqqii")
_NONE: Final = -1
MOST_TOKENS: Final = 2**31 - 1
"""The largest token count that an `ENDINGS` record holds."""

_KIND_NUMBERS: Final = {kind: EVENT_KINDS.index(kind) for kind in ("content", "reasoning", "tool")}


class ChunkRecord(NamedTuple):
    """A chunk, read back."""

    kind: str
    n_tokens: int | None
    token_ids: list[int] | None
    text: str


class EndingRecord(NamedTuple):
    """What the end of a query carries, read back."""

    input_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    token_ids: list[int] | None
    data: bytes | None


def encode_chunk(kind: str, n_tokens: int | None, token_ids: Sequence[int] | None, text: str) -> bytes:
    """The payload of a `CHUNK` record. Token ids count themselves; ``n_tokens`` counts where there are none.

    Raises:
        KeyError, TypeError, ValueError, OverflowError, AttributeError, struct.error: a field is not what the
            plugin API says.
    """
    if token_ids is None:
        head = _CHUNK.pack(_KIND_NUMBERS[kind], _count(n_tokens), _NONE)
        return head + text.encode()
    ids = array("i", token_ids)
    return _CHUNK.pack(_KIND_NUMBERS[kind], len(ids), len(ids)) + ids.tobytes() + text.encode()


def decode_chunk(payload: bytes) -> ChunkRecord:
    """Read what `encode_chunk` wrote."""
    kind, tokens, count = _CHUNK.unpack_from(payload)
    ids, rest = _ids(payload, _CHUNK.size, count)
    return ChunkRecord(EVENT_KINDS[kind], _known(tokens), ids, payload[rest:].decode())


def encode_ending(
    counts: tuple[int | None, int | None, int | None],
    token_ids: Sequence[int] | None,
    data: bytes | None,
) -> bytes:
    """The payload of an `ENDING` record; ``counts`` are input, output and cached tokens.

    Raises:
        TypeError, ValueError, OverflowError, struct.error: a field is not what the plugin API says.
    """
    ids = None if token_ids is None else array("i", token_ids)
    head = _ENDING.pack(*map(_count, counts), _size(ids), _size(data))
    return head + (b"" if ids is None else ids.tobytes()) + (b"" if data is None else bytes(data))


def decode_ending(payload: bytes) -> EndingRecord:
    """Read what `encode_ending` wrote."""
    inputs, outputs, cached, count, size = _ENDING.unpack_from(payload)
    ids, rest = _ids(payload, _ENDING.size, count)
    data = None if size == _NONE else payload[rest:]
    return EndingRecord(_known(inputs), _known(outputs), _known(cached), ids, data)


def encode_endings(input_tokens: Int64s | None, output_tokens: Int64s | None) -> bytes:
    """The payload of an `ENDINGS` record: int32[samples] input tokens, then as many output tokens.
    One of both is given.
    """
    given = output_tokens if input_tokens is None else input_tokens
    assert given is not None
    none = np.full(len(given), _NONE, dtype=np.int32)
    columns = (none if c is None else c.astype(np.int32) for c in (input_tokens, output_tokens))
    return b"".join(column.tobytes() for column in columns)


def decode_endings(payload: bytes) -> Int32s:
    """Read what `encode_endings` wrote: int32[2, samples], -1 where a count is not known."""
    return np.frombuffer(payload, dtype=np.int32).reshape(2, -1)


def _count(tokens: int | None) -> int:
    if tokens is None:
        return _NONE
    if tokens < 0:
        raise ValueError(f"{tokens} tokens")
    return tokens


def _known(tokens: int) -> int | None:
    return None if tokens == _NONE else tokens


def _size(value: array[int] | bytes | None) -> int:
    if value is None:
        return _NONE
    if not isinstance(value, (array, bytes, bytearray, memoryview)):
        raise TypeError(f"data is of type {type(value).__name__}, not bytes")
    return len(value)


def _ids(payload: bytes, start: int, count: int) -> tuple[list[int] | None, int]:
    """``count`` token ids that begin at ``start``, and where they end."""
    if count == _NONE:
        return None, start
    ids = array("i")
    end = start + count * ids.itemsize
    ids.frombytes(payload[start:end])
    return ids.tolist(), end
