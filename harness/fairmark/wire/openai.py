"""The OpenAI HTTP API as dialects: chat completions and text completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fairmark.samples.sample import Sample
from fairmark.wire.openai_answer import Answer, chat_piece, completion_piece
from fairmark.wire.openai_request import chat_prompt, completion_prompt, request_body
from fairmark.wire.openai_response import decode
from fairmark.wire.response import Read, Response

__all__ = ["OpenAIChat", "OpenAICompletions"]

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class OpenAIChat:
    """``/v1/chat/completions``."""

    name: str = "openai-chat"
    path: str = "/v1/chat/completions"

    def render(
        self, sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        """See `fairmark.wire.dialects.Dialect.render`."""
        return request_body(chat_prompt(sample), sample.generation, model=model, stream=stream, extra=extra)

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """See `fairmark.wire.dialects.Dialect.decode`."""
        return decode(reads, closed=closed, stream=stream, answer=Answer(chat_piece))


@dataclass(frozen=True, slots=True)
class OpenAICompletions:
    """``/v1/completions``."""

    name: str = "openai-completions"
    path: str = "/v1/completions"

    def render(
        self, sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        """See `fairmark.wire.dialects.Dialect.render`."""
        return request_body(
            completion_prompt(sample), sample.generation, model=model, stream=stream, extra=extra
        )

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """See `fairmark.wire.dialects.Dialect.decode`."""
        return decode(reads, closed=closed, stream=stream, answer=Answer(completion_piece))
