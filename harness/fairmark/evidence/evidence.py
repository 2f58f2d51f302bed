"""The evidence of one run, read back. Everything that is measured or judged is a function of this."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fairmark.errors import EvidenceError
from fairmark.evidence.tables import TableFile, open_table, read_table

__all__ = ["Evidence", "load_evidence"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence tables of a run (columns: `fairmark.evidence.columns`).

    ``events``, of which there may be a hundred for each query, may be left on disk.
    ``workers`` is one mapping per worker: index, host, epoch_ns, offset_ns, offset_bound_ns, pacer,
    isolation, cores, ceiling figures. ``environment`` is the allow-listed host description.
    """

    queries: pa.Table
    events: pa.Table | TableFile
    outputs: pa.Table
    samples: pa.Table
    plan: pa.Table
    health: pa.Table
    telemetry: pa.Table
    workers: Sequence[Mapping[str, Any]]
    environment: Mapping[str, Any]

    @property
    def all_events(self) -> pa.Table:
        """The whole table ``events``, in memory."""
        if isinstance(self.events, pa.Table):
            return self.events
        return read_table("events", self.events.path)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise EvidenceError(f"{path}: missing") from error
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: not readable JSON ({error})") from error


def load_evidence(folder: Path) -> Evidence:
    """Load the ``evidence/`` folder of a run.

    Raises:
        EvidenceError: a file is missing, damaged or does not keep the contract.
    """
    names = ("queries", "outputs", "samples", "plan", "health", "telemetry")
    tables = {name: read_table(name, folder / f"{name}.parquet") for name in names}
    return Evidence(
        **tables,
        events=open_table("events", folder / "events.parquet"),
        workers=_json(folder / "workers.json"),
        environment=_json(folder / "environment.json"),
    )
