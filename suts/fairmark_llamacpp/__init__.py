"""llama.cpp's own HTTP server, started, watched and stopped for the length of a run."""

from __future__ import annotations

import fairmark
from fairmark_llamacpp.sut import LlamaCppSUT

__all__ = ["LlamaCppSUT", "fairmark_suts"]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    """The SUTs of this module."""
    return {"llamacpp": LlamaCppSUT}
