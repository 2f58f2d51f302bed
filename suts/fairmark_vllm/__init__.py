"""vLLM, in the driver's process or as a server that is started and stopped for the length of a run."""

from __future__ import annotations

import fairmark
from fairmark_vllm.in_process import VllmSUT
from fairmark_vllm.serve import VllmServeSUT

__all__ = ["VllmSUT", "VllmServeSUT", "fairmark_suts"]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    """The SUTs of this module."""
    return {"vllm": VllmSUT, "vllm-serve": VllmServeSUT}
