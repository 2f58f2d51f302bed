"""Closing a run: seal the live store, digest the evidence, end the journal, write the record."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairmark.errors import EvidenceError
from fairmark.evidence.journal import Journal
from fairmark.evidence.json_file import read_json, write_json
from fairmark.evidence.live import LIVE, RESERVE, open_store
from fairmark.evidence.outcome import outcome
from fairmark.evidence.seal import Sealed, seal
from fairmark.evidence.store import NO_SPACE

__all__ = [
    "CLAIMS",
    "FACTS",
    "Closed",
    "close_run",
    "evidence_digests",
    "facts_sha256",
    "utc_now",
    "write_record",
]

FACTS = "facts.json"
"""Inside the live store: the facts of the record that are known before the run."""

CLAIMS = "claims.json"
"""Inside the live store: what a system that a worker opened says of itself."""

_NOT_FACTS: Final = frozenset({"outcome", "evidence", "metrics", "verdict"})
"""Parts of the record that the journal seals on its own, and parts that are derived."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed run: its facts, and what sealing found."""

    facts: Mapping[str, Any]
    sealed: Sealed


def utc_now() -> str:
    """The wall-clock time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def evidence_digests(evidence: Path) -> dict[str, dict[str, Any]]:
    """``{relative path: {"sha256", "bytes"}}`` of every file under ``evidence``, sorted."""
    files = sorted(p for p in evidence.rglob("*") if p.is_file())
    return {p.relative_to(evidence).as_posix(): _digest(p) for p in files}


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}


def facts_sha256(record: Mapping[str, Any]) -> str:
    """The digest of everything in ``record`` that was neither measured nor derived: what was asked, of whom,
    when, at which attempt.

    SHA-256 of it as JSON in ASCII with sorted keys and without spaces. Outcome and evidence digests are left
    out, since the journal holds them literally; metrics and verdict, since they follow from the rest.
    """
    facts = {key: value for key, value in record.items() if key not in _NOT_FACTS}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def close_run(folder: Path, *, detail: str | None, after: Mapping[str, Any] | None) -> Closed:
    """Close the run in ``folder`` and remove its live store.

    The last line of the journal holds the digests of all other evidence files and of the record's facts; the
    record holds the journal's own as well.

    Args:
        detail: more about why it ended, if there is more.
        after: the environment at the end; None if nobody saw the end.

    Raises:
        EvidenceError: there is no space for the tables; the live store is kept and can be recovered.
    """
    (folder / LIVE / RESERVE).unlink(missing_ok=True)
    try:
        closed = _close(folder, detail, after)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
        raise EvidenceError(
            f"{folder}: no space to seal the evidence; free some and run: fairmark recover {folder}"
        ) from error
    shutil.rmtree(folder / LIVE)
    return closed


def _close(folder: Path, detail: str | None, after: Mapping[str, Any] | None) -> Closed:
    live, evidence = folder / LIVE, folder / "evidence"
    store = open_store(live)
    sealed = seal(store, evidence)
    if sealed.unreadable_looks:
        Journal(evidence / "journal.jsonl").append("unreadable", telemetry=sealed.unreadable_looks)
    facts = write_record(
        folder,
        _facts(live),
        outcome=outcome(store, sealed, detail),
        before=read_json(live / "environment.json"),
        after=after,
    )
    return Closed(facts, sealed)


def _facts(live: Path) -> dict[str, Any]:
    """The facts, with the claims of a system that was opened after they were written."""
    facts, claims = read_json(live / FACTS), live / CLAIMS
    if claims.exists():
        facts["sut"]["claims"] = read_json(claims)
    return facts


def write_record(
    folder: Path,
    facts: Mapping[str, Any],
    *,
    outcome: Mapping[str, Any],
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Write the environment, end the journal and write ``run.json``, once all other evidence is there.

    Args:
        before, after: the environment.

    Returns:
        The record: ``facts``, the outcome, the time of the end and the digests of the evidence.
    """
    evidence = folder / "evidence"
    write_json(evidence / "environment.json", {"before": before, "after": after})
    journal_file = evidence / "journal.jsonl"
    digests = {n: d for n, d in evidence_digests(evidence).items() if n != journal_file.name}
    record = {**facts, "outcome": dict(outcome), "ended_utc": utc_now()}
    Journal(journal_file).append(
        "sealed", facts_sha256=facts_sha256(record), outcome=dict(outcome), evidence=digests
    )
    record["evidence"] = evidence_digests(evidence)
    write_json(folder / "run.json", record)
    return record
