"""What a report is made from: the record of a run and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmark.bundle.run_folder import load_record
from fairmark.evidence.evidence import Evidence, load_evidence

__all__ = ["RunData", "load_run"]


@dataclass(frozen=True, slots=True)
class RunData:
    """One run: its record (run.schema.json) and its evidence tables."""

    record: Mapping[str, Any]
    evidence: Evidence


def load_run(folder: Path) -> RunData:
    """Load a run folder for reporting.

    Raises:
        EvidenceError: the record or a table is missing, damaged or not in its contract.
    """
    return RunData(load_record(folder), load_evidence(folder / "evidence"))
