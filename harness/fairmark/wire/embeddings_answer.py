"""The answer of ``/v1/embeddings``: one vector."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairmark.wire.growing import GrowingAnswer, MalformedError, error_in, number_or

__all__ = ["EmbeddingsAnswer"]


class EmbeddingsAnswer(GrowingAnswer):
    """Takes its one document. ``data`` is the vector as float32, little-endian."""

    __slots__ = ()

    def take_document(self, document: Mapping[str, Any], name: bytes) -> tuple[str | None, int | None]:
        """See `GrowingAnswer.take_document`."""
        problem = error_in(document, name)
        if problem is not None:
            self.fail("engine_error", problem)
            return "error", None
        vectors = document.get("data")
        if vectors is None:
            return None, None
        if not isinstance(vectors, list) or not all(isinstance(v, dict) for v in vectors):
            raise MalformedError("data is not a list of objects")
        usage = document.get("usage")
        if isinstance(usage, dict):
            self._input = number_or(usage.get("prompt_tokens"), None)
        if len(vectors) > 1:
            self.flags.add("extra_choices")
        if vectors:
            self.data = _float32(vectors[0].get("embedding"))
            self.generated = True
        return "finish", None


def _float32(vector: Any) -> bytes:
    """The bytes of a vector that is a list of numbers, or base64 of just these bytes."""
    if isinstance(vector, str):
        try:
            data = base64.b64decode(vector, validate=True)
        except binascii.Error as error:
            raise MalformedError(f"an embedding that is not base64: {error}") from error
        numbers = np.frombuffer(data, dtype="<f4") if len(data) % 4 == 0 else np.empty(0, "<f4")
    elif isinstance(vector, list) and all(type(x) in (int, float) for x in vector):
        with np.errstate(over="ignore"):
            numbers = np.array(vector, dtype="<f4")
    else:
        raise MalformedError("an embedding that is neither a list of numbers nor base64")
    if not len(numbers) or not np.isfinite(numbers).all():
        raise MalformedError("an embedding without numbers, or with one that is not finite in float32")
    return numbers.tobytes()
