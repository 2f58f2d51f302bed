"""What a report is made from: the record of a run and its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmark.bundle.run_folder import load_record
from fairmark.evidence.evidence import Evidence, load_evidence
from fairmark.report.profile import Operator, read_profile

__all__ = ["RunData", "load_run"]


@dataclass(frozen=True, slots=True)
class RunData:
    """One run: its record (run.schema.json), its evidence tables, and what a profiler saw of it."""

    record: Mapping[str, Any]
    evidence: Evidence
    operators: Sequence[Operator] = ()


def load_run(folder: Path) -> RunData:
    """Load a run folder for reporting.

    Raises:
        EvidenceError: the record, a table or a trace is missing, damaged or not in its contract.
    """
    return RunData(load_record(folder), load_evidence(folder / "evidence"), read_profile(folder))
