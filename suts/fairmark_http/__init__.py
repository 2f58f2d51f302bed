"""Any OpenAI-compatible HTTP endpoint as a system under test."""

from __future__ import annotations

import fairmark
from fairmark_http.sut import HttpSUT

__all__ = ["HttpSUT", "fairmark_suts"]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    """The SUTs of this module."""
    return {"http": HttpSUT}
