"""The OpenAI HTTP API as dialects: chat completions, text completions, responses and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.wire.embeddings_answer import EmbeddingsAnswer
from fairmark.wire.openai_answer import Answer, chat_piece, completion_piece
from fairmark.wire.openai_request import (
    chat_prompt,
    completion_prompt,
    embeddings_body,
    request_body,
    responses_body,
)
from fairmark.wire.openai_response import decode
from fairmark.wire.response import Read, Response
from fairmark.wire.responses_answer import ResponsesAnswer

__all__ = ["OpenAIChat", "OpenAICompletions", "OpenAIEmbeddings", "OpenAIResponses"]

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


@dataclass(frozen=True, slots=True)
class OpenAIResponses:
    """``/v1/responses``."""

    name: str = "openai-responses"
    path: str = "/v1/responses"

    def render(
        self, sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        """See `fairmark.wire.dialects.Dialect.render`."""
        return responses_body(sample, model=model, stream=stream, extra=extra)

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """See `fairmark.wire.dialects.Dialect.decode`."""
        return decode(reads, closed=closed, stream=stream, answer=ResponsesAnswer())


@dataclass(frozen=True, slots=True)
class OpenAIEmbeddings:
    """``/v1/embeddings``. There is nothing to stream, and no token is generated."""

    name: str = "openai-embeddings"
    path: str = "/v1/embeddings"

    def render(
        self, sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any] = _NOTHING
    ) -> bytes:
        """See `fairmark.wire.dialects.Dialect.render`."""
        if stream:
            raise InputError("an embedding has no stream", field="stream", value=stream, accepted="false")
        return embeddings_body(sample, model=model, extra=extra)

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """See `fairmark.wire.dialects.Dialect.decode`."""
        return decode(reads, closed=closed, stream=stream, answer=EmbeddingsAnswer())
