"""What one stored response says, joined with how the driver saw its request end. Pure; audits use it too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fairmark.evidence.store import OUTCOMES
from fairmark.wire.dialects import Dialect
from fairmark.wire.response import Read, Response

__all__ = ["Answer", "decode_answer", "output_sha256"]

_DRIVER_FAILURES: Final = frozenset({"connect", "timeout", "stalled", "aborted"})
_GENERATED: Final = frozenset({"content", "reasoning", "tool"})
_DEFAULT_DETAIL: Final = {
    "timeout": "no response byte within the query timeout",
    "stalled": "the response did not finish within the query timeout",
    "aborted": "the run ended first",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response and the facts that depend on more than its bytes. Times are those of ``reads``."""

    response: Response
    first_byte_ns: int | None
    first_token_ns: int | None
    last_token_ns: int | None
    failure: str | None
    failure_detail: str | None
    output_sha256: str | None

    @property
    def flags(self) -> str | None:
        """The remarks of the decoder, as the column has them."""
        return " ".join(sorted(self.response.flags)) or None


def output_sha256(text: str) -> str:
    """SHA-256 of an output's text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def decode_answer(
    dialect: Dialect, reads: Sequence[Read], outcome: int, *, stream: bool, detail: str | None = None
) -> Answer:
    """Decode ``reads``.

    What the driver itself ended or could not send is failed as it says; everything else is as the bytes
    say. Without a stream there is no first token: the whole output arrives at once.

    Args:
        outcome: position in `OUTCOMES`; 0, never ended, is an aborted query.
        stream: whether a stream was asked for.
        detail: what the driver noted about a failure.
    """
    seen = OUTCOMES[outcome] or "aborted"
    response = dialect.decode(reads, closed=seen == "eof", stream=stream) if reads else Response(None)
    failure, explained = response.failure, response.failure_detail
    if seen in _DRIVER_FAILURES:
        failure, explained = seen, detail or _DEFAULT_DETAIL.get(seen)
    elif failure is None and seen == "reset":
        failure, explained = "truncated", detail
    elif failure is None and seen == "garbled":
        failure, explained = "malformed", detail
    tokens = (
        [e.arrival_ns for e in response.events if e.kind in _GENERATED and e.n_tokens != 0] if stream else []
    )
    return Answer(
        response=response,
        first_byte_ns=reads[0].arrival_ns if reads else None,
        first_token_ns=tokens[0] if tokens else None,
        last_token_ns=tokens[-1] if tokens else None,
        failure=failure,
        failure_detail=explained,
        output_sha256=output_sha256(response.text) if reads and response.text else None,
    )
