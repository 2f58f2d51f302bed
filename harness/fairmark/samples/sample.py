"""One query's content, as every later stage sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairmark.scenario.model import Generation

__all__ = ["Message", "Sample"]

Message = Mapping[str, str]
"""A chat message: ``{"role": ..., "content": ...}``."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One row of the sample library, rendered once, before the run.

    Attributes:
        index: the row's position in the sample library (LoadGen's qsl index).
        data: the row's used columns.
        prompt: text, or a list of chat messages, or None for non-language samples.
        reference: the reference answer, when the scenario names a column for it.
        token_ids: the prompt's token ids, when the scenario pins a tokenizer.
        generation: what the request asks of the model.
    """

    index: int
    data: Mapping[str, Any]
    prompt: str | Sequence[Message] | None
    generation: Generation
    reference: str | None = None
    token_ids: Sequence[int] | None = None
