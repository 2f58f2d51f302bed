"""What a stored response is read into: events with their stamps, and the facts at its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fairmark.errors import FairmarkError

__all__ = ["Event", "Read", "Response", "WireError"]


class WireError(FairmarkError):
    """Stored bytes cannot be read by the protocol they claim."""


# A run has millions of reads and events: as named tuples they cost half of what frozen dataclasses do.


class Read(NamedTuple):
    """One socket read: the stamp taken before any parsing, and the bytes."""

    arrival_ns: int
    data: bytes


class Event(NamedTuple):
    """One event of a response.

    ``arrival_ns`` is the stamp of the read that completed the event; ``read`` is that read's position in
    the response, so events with equal ``read`` share a stamp and were coalesced, not simultaneous.
    ``kind`` is one of ``evidence.columns.EVENT_KINDS``; ``n_tokens`` is None when the wire does not say.
    """

    arrival_ns: int
    read: int
    kind: str
    n_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response, decoded after the run.

    ``failure`` is a kind from ``evidence.columns.FAILURES`` or None; a response is a success only with
    terminal evidence: a finish reason and a clean end of the HTTP body; an answer that is not text, ``data``,
    has no finish reason. ``flags`` are remarks that do not
    make it a failure, such as ``no_end_marker``.
    """

    http_status: int | None
    events: Sequence[Event] = ()
    text: str = ""
    reasoning: str = ""
    token_ids: Sequence[int] | None = None
    data: bytes | None = None
    finish_reason: str | None = None
    input_tokens: int | None = None
    input_token_source: str | None = None
    output_tokens: int | None = None
    output_token_source: str | None = None
    cached_tokens: int | None = None
    failure: str | None = None
    failure_detail: str | None = None
    flags: Sequence[str] = field(default=())
