"""What the simulated model answers to one request, before any fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairmark_sim.service import ServiceTimes

__all__ = ["Api", "Reply"]

Api = Literal["chat", "completions", "responses"]


@dataclass(frozen=True, slots=True)
class Reply:
    """The output for request ``number``, when it is ready, and how the client wants to have it."""

    number: int
    api: Api
    stream: bool
    include_usage: bool
    model: str
    tokens: Sequence[str]
    tokens_per_chunk: int
    finish_reason: str
    input_tokens: int
    times: ServiceTimes

    @property
    def chat(self) -> bool:
        """Whether the answer is a chat completion."""
        return self.api == "chat"

    @property
    def end_ns(self) -> int:
        """When the last token is ready."""
        return self.times.token_ns(max(len(self.tokens) - 1, 0))

    def usage(self, tokens: int) -> dict[str, Any]:
        """The usage object after ``tokens`` output tokens."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": tokens,
            "total_tokens": self.input_tokens + tokens,
        }
