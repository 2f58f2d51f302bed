"""A finished run folder: its record, the files that belong to it, and whether their digests hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairmark.bundle.documents import parse_json, schema_violation
from fairmark.bundle.findings import Finding
from fairmark.bundle.names import checked_name
from fairmark.bundle.tree import Entry, file_sha256, walk
from fairmark.errors import EvidenceError, InputError

__all__ = [
    "ENVIRONMENT",
    "JOURNAL",
    "RECORD",
    "SCENARIO",
    "belongs",
    "digest_findings",
    "is_run",
    "load_record",
    "place_of",
    "refuse_profile",
]

RECORD: Final = "run.json"
SCENARIO: Final = "scenario.toml"
ENVIRONMENT: Final = "evidence/environment.json"
JOURNAL: Final = "evidence/journal.jsonl"

_TABLES: Final = "queries|events|reads|outputs|plan|samples|health|telemetry"
_BELONGS: Final = re.compile(
    rf"run\.json|scenario\.toml|evidence/(?:(?:{_TABLES})\.parquet|wire/worker-\d+\.zst|workers\.json"
    r"|environment\.json|references\.jsonl|arrivals\.txt|journal\.jsonl|logs/[A-Za-z0-9][A-Za-z0-9._-]*)"
)


@dataclass(frozen=True, slots=True)
class _Listed:
    sha256: str
    bytes: int


def belongs(path: str) -> bool:
    """Whether a file at ``path`` (relative, forward slashes) is part of a run; bundles take no others."""
    return _BELONGS.fullmatch(path) is not None


def is_run(path: Path) -> bool:
    """Whether ``path`` is a run folder: a folder with a record."""
    return (path / RECORD).is_file()


def load_record(folder: Path) -> dict[str, Any]:
    """The run record, checked against its schema.

    Raises:
        EvidenceError: it is missing, not strict JSON, or not a record.
    """
    path = folder / RECORD
    try:
        record = parse_json(path.read_bytes())
    except FileNotFoundError as error:
        raise EvidenceError(f"{folder}: has no {RECORD}; is it a finished run folder?") from error
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: not readable JSON ({error})") from error
    broken = schema_violation(record, "run.schema.json")
    if broken is not None:
        raise EvidenceError(f"{path}: {broken[0]}: {broken[1]}")
    checked: dict[str, Any] = record
    return checked


def refuse_profile(folder: Path, record: Mapping[str, Any]) -> None:
    """A run under a profiler measured nothing: there is nothing to judge, to recompute or to hand in.

    Raises:
        InputError: ``record``, that of the run in ``folder``, is of such a run.
    """
    if record["mode"] == "profile":
        raise InputError(
            "is a profile run, which is never judged",
            source=folder,
            accepted="a run made without --profile",
        )


def place_of(record: Mapping[str, Any]) -> str:
    """Where a bundle keeps the run: ``<benchmark>/<scenario>/<mode>[-<repetition>]``.

    Raises:
        InputError: the benchmark's name cannot be a folder name.
    """
    scenario, repetition = record["scenario"], record["plan"]["repetition"]
    benchmark = checked_name(scenario["benchmark"], "benchmark")
    run = record["mode"] if repetition == 0 else f"{record['mode']}-{repetition}"
    return f"{benchmark}/{checked_name(scenario['scenario'], 'scenario')}/{run}"


def digest_findings(folder: Path, record: dict[str, Any]) -> list[Finding]:
    """Every way in which the evidence files differ from what the record lists.

    ``folder`` is the run folder.
    """
    listed = {f"evidence/{name}": _Listed(**entry) for name, entry in record["evidence"].items()}
    entries = {entry.path: entry for entry in walk(folder)}
    return sorted(_differences(folder, listed, entries), key=lambda f: (f.file, f.id))


def _differences(folder: Path, listed: dict[str, _Listed], entries: dict[str, Entry]) -> Iterator[Finding]:
    for path, entry in entries.items():
        if entry.kind != "file" and entry.kind != "empty_folder":
            yield _finding("run.linked", path, f"is a {entry.kind.replace('symlink', 'symbolic link')}")
        elif path.startswith("evidence/") and entry.kind == "file" and path not in listed:
            yield _finding("run.extra", path, "is not evidence that the record lists")
    for path, expected in listed.items():
        found = entries.get(path)
        if found is None:
            yield _finding("run.missing", path, "is listed in the record and missing")
        elif found.kind == "file":
            digest = file_sha256(folder / path)
            if (digest, found.size) != (expected.sha256, expected.bytes):
                yield _finding(
                    "run.changed", path, f"has SHA-256 {digest}; the record says {expected.sha256}"
                )
    if JOURNAL not in listed:
        yield _finding("run.missing", JOURNAL, "the journal, which seals the evidence, is not listed")


def _finding(finding: str, file: str, message: str) -> Finding:
    return Finding(
        finding, "error", file, message, "run the scenario again: this evidence is not as recorded"
    )
