"""Simulated systems under test with known truth. They are test instruments, and say so in every record."""

from __future__ import annotations

import fairmark
from fairmark_sim.simulated import SimLlmSUT, SimQueueSUT
from fairmark_sim.sut import SimHttpSUT

__all__ = ["SimHttpSUT", "SimLlmSUT", "SimQueueSUT", "fairmark_suts"]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    """The SUTs of this module."""
    return {"sim-http": SimHttpSUT, "sim-llm": SimLlmSUT, "sim-queue": SimQueueSUT}
