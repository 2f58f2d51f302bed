"""One run under audit, loaded from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fairmark.audit.problems import Problems
from fairmark.bundle.run_folder import RECORD, SCENARIO, digest_findings, load_record
from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import TABLES, read_table
from fairmark.samples.library import SampleLibrary
from fairmark.scenario.load import parse_scenario
from fairmark.scenario.model import Scenario
from fairmark.wire.dialects import Dialect, dialect

__all__ = ["REFERENCES", "Subject", "load_subject", "record_of"]

REFERENCES: Final = "evidence/references.jsonl"

_RUN_AGAIN: Final = "run the scenario again; a record that its own evidence contradicts cannot be repaired"


@dataclass(frozen=True, slots=True)
class Subject:
    """A run whose files are what its record lists, and can be read.

    Attributes:
        record: ``run.json`` as it is.
        scenario: parsed again from ``scenario.toml``, with the recorded overrides.
        library: rebuilt from the samples table.
        evidence: every table but ``reads``.
        reads: the table ``reads``.
        references: bytes of the accuracy reference file, where there is one.
    """

    folder: Path
    record: Mapping[str, Any]
    scenario: Scenario
    library: SampleLibrary
    evidence: Evidence
    reads: pa.Table
    references: bytes | None

    @property
    def dialect(self) -> Dialect | None:
        """How requests and responses are written; None where fairmark itself does not know that."""
        requests = self.record["requests"] or {}
        try:
            return dialect(str(self.record["sut"]["dialect"]), requests.get("template"))
        except InputError:
            return None


def load_subject(folder: Path, record: dict[str, Any], problems: Problems) -> Subject | None:
    """Load the run in ``folder``; None when something is missing or damaged, which ``problems`` then says."""
    problems.extend(digest_findings(folder, record))
    scenario = _scenario(folder, record, problems)
    if problems.has_errors or scenario is None:
        return None
    tables = {name: _table(folder, name, problems) for name in TABLES}
    workers = _json(folder, "evidence/workers.json", list, problems)
    environment = _json(folder, "evidence/environment.json", dict, problems)
    if problems.has_errors:
        return None
    library = _library(tables["samples"], scenario, problems)
    if library is None:
        return None
    reads = tables.pop("reads")
    references = folder / REFERENCES
    return Subject(
        folder=folder,
        record=record,
        scenario=scenario,
        library=library,
        evidence=Evidence(**tables, workers=workers, environment=environment),
        reads=reads,
        references=references.read_bytes() if references.exists() else None,
    )


def record_of(folder: Path, problems: Problems) -> dict[str, Any] | None:
    """The run record, or None with the problem noted."""
    try:
        return load_record(folder)
    except EvidenceError as error:
        problems.error("audit.record", RECORD, _without(folder, error), _RUN_AGAIN)
        return None


def _scenario(folder: Path, record: Mapping[str, Any], problems: Problems) -> Scenario | None:
    try:
        text = (folder / SCENARIO).read_bytes()
        return parse_scenario(text, source=SCENARIO, overrides=record["overrides"])
    except FileNotFoundError:
        problems.error("audit.scenario", SCENARIO, "is missing", _RUN_AGAIN)
    except InputError as error:
        problems.error("audit.scenario", SCENARIO, f"cannot be read: {error}", _RUN_AGAIN)
    return None


def _table(folder: Path, name: str, problems: Problems) -> pa.Table:
    path = f"evidence/{name}.parquet"
    try:
        return read_table(name, folder / path)
    except EvidenceError as error:
        problems.error("audit.evidence", path, _without(folder, error), _RUN_AGAIN)
        return pa.table({})


def _json(folder: Path, path: str, kind: type, problems: Problems) -> Any:
    try:
        value = json.loads((folder / path).read_bytes())
    except (OSError, ValueError) as error:
        problems.error("audit.evidence", path, f"is not readable JSON ({type(error).__name__})", _RUN_AGAIN)
        return None
    if not isinstance(value, kind):
        problems.error("audit.evidence", path, f"does not hold a JSON {kind.__name__}", _RUN_AGAIN)
    return value


def _library(table: pa.Table, scenario: Scenario, problems: Problems) -> SampleLibrary | None:
    try:
        return SampleLibrary.from_table(table, scenario.samples, scenario.generation)
    except EvidenceError as error:
        problems.error("audit.samples", "evidence/samples.parquet", str(error), _RUN_AGAIN)
        return None


def _without(folder: Path, error: EvidenceError) -> str:
    """The message without the folder, which findings name once and relative."""
    return str(error).replace(f"{folder}/", "")
