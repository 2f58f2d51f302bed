"""Hugging Face transformers in the driver's process: language models, embeddings, classifiers."""

from __future__ import annotations

import fairmark
from fairmark_transformers.sut import TransformersSUT

__all__ = ["TransformersSUT", "fairmark_suts"]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    """The SUTs of this module."""
    return {"transformers": TransformersSUT}
