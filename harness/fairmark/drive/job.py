"""What the coordinator is asked to do, and what it says while it does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fairmark.drive.inprocess.plugin import PluginOrder
from fairmark.drive.pacing import PacerName
from fairmark.evidence.columns import Phase
from fairmark.samples.library import SampleLibrary
from fairmark.scenario.model import Scenario
from fairmark.sut.api import WireSUT
from fairmark.sut.sim import SimSUT
from fairmark.traffic.plan import Plan

__all__ = [
    "Calibration",
    "Clock",
    "InProcessJob",
    "Job",
    "Progress",
    "Report",
    "RunJob",
    "RunMode",
    "VirtualJob",
]

RunMode = Literal["performance", "accuracy", "submission", "profile"]
"""``profile`` drives the warm-up alone, under the system's profiler; nothing of it is counted."""

Calibration = Literal["cached", "fresh", "none"]
Clock = Literal["real", "virtual"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every run is asked for, whatever drives it.

    Attributes:
        scenario_source: the scenario file, byte for byte.
        references: the accuracy reference file, byte for byte, when the scenario has one.
        arrivals: the file of recorded arrivals, byte for byte, when the scenario names one.
        plans: the traffic of each phase; the counted phases of ``mode``, and ``warmup`` if there is one.
        sut_facts: who the SUT is: ``name``, ``plugin`` and ``options``.
        out: the run folder. It may exist and hold the SUT's logs, but no run.
        workspace: the folder of the attempts ledger.
        series: the id that all repetitions of the run share; None for a run alone.
    """

    scenario: Scenario
    scenario_source: bytes
    library: SampleLibrary
    references: bytes | None
    mode: RunMode
    plans: Mapping[Phase, Plan]
    sut_facts: Mapping[str, Any]
    out: Path
    workspace: Path
    repetition: int = 0
    series: str | None = None
    nonce: str | None = None
    arrivals: bytes | None = None

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in the order they run: warm-up comes right before the phase that it warms up for."""
        order: tuple[Phase, ...] = ("accuracy", "warmup", "performance")
        if "performance" not in self.plans:
            order = ("warmup", "accuracy")
        return tuple(name for name in order if name in self.plans and self.plans[name].query_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob(Job):
    """A run on the real clock.

    Attributes:
        sut: open; it is closed by the run.
        calibration: of the client: use what is cached and measure what is missing, measure anew, or do
            without.
        probe: send one request before the run and refuse a server that cannot answer it.
        pacer: None takes the best there is.
    """

    sut: WireSUT
    calibration: Calibration = "cached"
    probe: bool = True
    pacer: PacerName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualJob(Job):
    """A run on the virtual clock.

    Attributes:
        sut: open; it is closed by the run.
    """

    sut: SimSUT


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcessJob(Job):
    """A run on the real clock of a system that a worker makes and opens in its own process.

    Attributes:
        plugin: how the worker makes it.
        pacer: of event loops; None takes the best there is.
    """

    plugin: PluginOrder
    pacer: PacerName | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is.

    Attributes:
        stage: what is going on: a phase, or ``probe``, ``calibrate``, ``start``, ``seal``.
        planned: samples of the phase's plan; closed loops may end before, and never go beyond.
        elapsed_s: since the phase began.
    """

    stage: str
    issued: int = 0
    completed: int = 0
    failed: int = 0
    planned: int = 0
    elapsed_s: float = 0.0


Report = Callable[[Progress], None]
"""Shows progress; called often, and must not take long."""
