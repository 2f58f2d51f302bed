"""Which plugin a worker loads, with which options, in which of its shapes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

from fairmark.scenario.model import Scenario, ScenarioKind
from fairmark.sut.api import SUT, BatchSUT, SyncSUT
from fairmark.sut.options import parse_options
from fairmark.sut.plugins import load_sut, shapes

__all__ = ["Isolation", "PluginOrder", "Shape", "pick_isolation", "pick_shape", "read_plugin"]

Shape = Literal["sync", "async", "batch", "callback"]

Isolation = Literal["in_process", "subprocess"]
"""Whether the issuer shares the system's process or has one of its own."""

_FILE: Final = "plugin.json"
_AS_THEY_COME: Final[tuple[Shape, ...]] = ("async", "sync", "callback", "batch")
_TOGETHER: Final[tuple[Shape, ...]] = ("batch", "callback", "async", "sync")


def pick_shape(cls: type[SUT], kind: ScenarioKind) -> Shape | None:
    """The shape of ``cls`` that fits a scenario: batches where samples come together, else one by one.

    None if it has none that runs in the driver's process.
    """
    order = _TOGETHER if kind in ("Offline", "MultiStream") else _AS_THEY_COME
    has = shapes(cls)
    return next((shape for shape in order if shape in has), None)


def pick_isolation(cls: type[SUT], shape: Shape, scenario: Scenario) -> Isolation:
    """Its own process for the issuer where there is a schedule and the engine holds the interpreter lock.

    A limit on what is outstanding needs the issuer to hear of every end; then it stays with the system.
    """
    scheduled = scenario.scenario == "Server" and scenario.run.max_outstanding_queries is None
    holds = shape in ("sync", "batch") and issubclass(cls, SyncSUT | BatchSUT) and cls.holds_gil
    return "subprocess" if scheduled and holds and hasattr(os, "eventfd") else "in_process"


@dataclass(frozen=True, slots=True)
class PluginOrder:
    """What it takes to make the system again in another process.

    Attributes:
        name: of the system.
        plugins: extra modules and files, as `fairmark.sut.plugins.load_sut` takes them.
        options: ``name=value`` assignments.
        logs: where the system's own logs go.
        traces: where its profiler writes; None does not profile.
    """

    name: str
    plugins: Sequence[str]
    options: Sequence[str]
    shape: Shape
    logs: str
    traces: str | None = None
    isolation: Isolation = "in_process"

    def write(self, folder: Path) -> None:
        """Write it into the live store."""
        (folder / _FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")

    def make(self) -> SUT:
        """Import the plugin and make the system; it is not opened.

        Raises:
            InputError: the plugin or an option cannot be used.
        """
        cls = load_sut(self.name, self.plugins)
        sut = cls(parse_options(cls.Options, self.options, sut=self.name))
        sut.logs = Path(self.logs)
        sut.traces = None if self.traces is None else Path(self.traces)
        return sut


def read_plugin(folder: Path) -> PluginOrder:
    """Read what `PluginOrder.write` wrote."""
    return PluginOrder(**json.loads((folder / _FILE).read_text(encoding="utf-8")))
