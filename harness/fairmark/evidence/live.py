"""The live store of a run: the folder that holds plan, stamps and bytes until they are sealed.

    layout.json                 what this module reads back: phases, workers, dialect
    control.bin                 `evidence.control`
    columns.bin                 `evidence.store.Columns`
    <phase>.sample_index.npy    int64[samples], in seq order
    <phase>.offsets.npy         int64[queries + 1]: query q has samples offsets[q] to offsets[q + 1]
    <phase>.due_ns.npy          int64[queries], from the phase's epoch; only where queries have a time
    worker-<n>.<segment>.log    `evidence.store.LogWriter`
    worker-<n>.buffer-<n>       what the log holds beyond its segments
    worker-<n>.json             what the worker says of itself
    reserve                     space for sealing

Phases are numbered in the order they run; ``seq`` and ``query`` count through all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from fairmark.errors import EvidenceError
from fairmark.evidence.columns import PHASES, Phase
from fairmark.evidence.control import Control
from fairmark.evidence.json_file import read_json, write_json
from fairmark.evidence.store import Columns, allocate

__all__ = ["LIVE", "RESERVE", "LivePhase", "LiveStore", "create_store", "open_store"]

LIVE: Final = "live"
"""Name of the store inside a run folder."""

RESERVE: Final = "reserve"
"""Space that is freed when a run is sealed, so that a full disk does not keep it from being closed."""

_RESERVE_BYTES: Final = 4 << 20
_CONTRACT: Final = "fairmark/live/1"

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class LivePhase:
    """One phase of the plan.

    Attributes:
        sample_index: int64[samples], in seq order.
        offsets: int64[queries + 1] into ``sample_index``.
        due_ns: int64[queries] from the phase's epoch, or None in closed loops.
        by_sample: whether workers share out single samples instead of whole queries (Offline).
    """

    name: Phase
    sample_index: Int64s
    offsets: Int64s
    due_ns: Int64s | None
    by_sample: bool = False

    @property
    def samples(self) -> int:
        """Planned samples."""
        return len(self.sample_index)

    @property
    def queries(self) -> int:
        """Planned queries."""
        return len(self.offsets) - 1

    @property
    def units(self) -> int:
        """How many pieces the workers share out."""
        return self.samples if self.by_sample else self.queries

    @property
    def query_of(self) -> Int64s:
        """int64[samples]: the query of every sample."""
        return np.repeat(np.arange(self.queries, dtype=np.int64), np.diff(self.offsets))

    def worker_of(self, workers: int) -> Int64s:
        """int64[samples]: unit i belongs to worker i mod ``workers``."""
        unit = np.arange(self.samples, dtype=np.int64) if self.by_sample else self.query_of
        return unit % workers


@dataclass(frozen=True, slots=True, eq=False)
class LiveStore:
    """A live store and its mapped parts.

    Attributes:
        repetition: of the whole run.
        common: what is true of every worker: its host, its isolation.
        ceilings: each worker's calibrated ceiling, if the client was calibrated.
        of_tokens: whether answers are made of tokens.
        template: what the dialect is made of, if of one.
        first_seq, first_query: per phase, where its numbers start.
    """

    folder: Path
    phases: Sequence[LivePhase]
    workers: int
    dialect: str
    stream: bool
    repetition: int
    common: Mapping[str, Any]
    ceilings: Sequence[Mapping[str, Any]] | None
    first_seq: Sequence[int]
    first_query: Sequence[int]
    of_tokens: bool = True
    template: Mapping[str, Any] | None = None

    @property
    def samples(self) -> int:
        """Planned samples of all phases."""
        return sum(p.samples for p in self.phases)

    def columns(self, *, write: bool = False) -> Columns:
        """The mapped columns."""
        return Columns(self.folder / "columns.bin", self.samples, write=write)

    def control(self) -> Control:
        """The mapped control page."""
        return Control(self.folder / "control.bin", self.workers)

    def log_stem(self, worker: int) -> Path:
        """Where the segments of a worker's log are."""
        return self.folder / f"worker-{worker}"

    def worker_facts(self, worker: int) -> dict[str, Any]:
        """What a worker says of itself; empty if it never came that far."""
        path = self.folder / f"worker-{worker}.json"
        return read_json(path) if path.exists() else {}


def create_store(
    folder: Path,
    phases: Sequence[LivePhase],
    *,
    workers: int,
    dialect: str,
    stream: bool,
    repetition: int = 0,
    common: Mapping[str, Any] = MappingProxyType({}),
    ceilings: Sequence[Mapping[str, Any]] | None = None,
    of_tokens: bool = True,
    template: Mapping[str, Any] | None = None,
) -> LiveStore:
    """Write plan and layout, and reserve the space for every stamp.

    Raises:
        DiskFullError: there is no space for them.
    """
    for phase in phases:
        for name, array in _arrays(phase).items():
            np.save(folder / f"{phase.name}.{name}.npy", array, allow_pickle=False)
    described = [{"name": p.name, "timed": p.due_ns is not None, "by_sample": p.by_sample} for p in phases]
    layout = {
        "contract": _CONTRACT,
        "workers": workers,
        "dialect": dialect,
        "stream": stream,
        "repetition": repetition,
        "common": dict(common),
        "ceilings": None if ceilings is None else [dict(c) for c in ceilings],
        "phases": described,
        "of_tokens": of_tokens,
        "template": template,
    }
    Columns.create(folder / "columns.bin", sum(p.samples for p in phases))
    allocate(folder / RESERVE, workers * _RESERVE_BYTES)
    Control.create(folder / "control.bin", workers, len(phases))
    # Last: a folder with a layout is complete.
    write_json(folder / "layout.json", layout)
    return open_store(folder)


def open_store(folder: Path) -> LiveStore:
    """Read back what `create_store` made.

    Raises:
        EvidenceError: it is missing, incomplete, or of another version.
    """
    layout = read_json(folder / "layout.json")
    if layout.get("contract") != _CONTRACT:
        raise EvidenceError(f"{folder}: is not a live store of {_CONTRACT}")
    phases = [_read_phase(folder, p) for p in layout["phases"]]
    counts = [(p.samples, p.queries) for p in phases]
    return LiveStore(
        folder=folder,
        phases=phases,
        workers=layout["workers"],
        dialect=layout["dialect"],
        stream=layout["stream"],
        repetition=layout["repetition"],
        common=layout["common"],
        ceilings=layout["ceilings"],
        first_seq=[sum(s for s, _ in counts[:i]) for i in range(len(counts))],
        first_query=[sum(q for _, q in counts[:i]) for i in range(len(counts))],
        of_tokens=layout["of_tokens"],
        template=layout["template"],
    )


def _arrays(phase: LivePhase) -> dict[str, Int64s]:
    arrays = {"sample_index": phase.sample_index, "offsets": phase.offsets}
    return arrays if phase.due_ns is None else {**arrays, "due_ns": phase.due_ns}


def _read_phase(folder: Path, described: Mapping[str, Any]) -> LivePhase:
    name = described["name"]
    if name not in PHASES:
        raise EvidenceError(f"{folder}: has an unknown phase {name!r}")

    def array(part: str) -> Int64s:
        try:
            loaded: Int64s = np.load(folder / f"{name}.{part}.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise EvidenceError(f"{folder}: {name}.{part}.npy cannot be read ({error})") from error
        return loaded

    due_ns = array("due_ns") if described["timed"] else None
    return LivePhase(name, array("sample_index"), array("offsets"), due_ns, described["by_sample"])
