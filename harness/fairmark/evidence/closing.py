"""Closing a run: seal the live store, digest the evidence, end the journal, write the record."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairmark.evidence.journal import Journal
from fairmark.evidence.live import LIVE, open_store
from fairmark.evidence.outcome import outcome
from fairmark.evidence.seal import Sealed, seal

__all__ = ["FACTS", "Closed", "close_run", "evidence_digests", "utc_now", "write_json"]

FACTS = "facts.json"
"""Inside the live store: the facts of the record that are known before the run."""


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed run: its facts, and what sealing found."""

    facts: Mapping[str, Any]
    sealed: Sealed


def utc_now() -> str:
    """The wall-clock time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def write_json(path: Path, content: Any) -> None:
    """Write strict, readable JSON; the file appears whole or not at all."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(f"{text}\n", encoding="utf-8")
    draft.replace(path)


def evidence_digests(evidence: Path) -> dict[str, dict[str, Any]]:
    """``{relative path: {"sha256", "bytes"}}`` of every file under ``evidence``, sorted."""
    files = sorted(p for p in evidence.rglob("*") if p.is_file())
    return {p.relative_to(evidence).as_posix(): _digest(p) for p in files}


def _digest(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "bytes": path.stat().st_size}


def close_run(folder: Path, *, detail: str | None, after: Mapping[str, Any] | None) -> Closed:
    """Close the run in ``folder`` and remove its live store.

    The last line of the journal holds the digests of all other evidence files; the record holds the
    journal's own as well.

    Args:
        detail: more about why it ended, if there is more.
        after: the environment at the end; None if nobody saw the end.
    """
    live, evidence = folder / LIVE, folder / "evidence"
    store = open_store(live)
    sealed = seal(store, evidence)
    facts = json.loads((live / FACTS).read_text(encoding="utf-8"))
    before = json.loads((live / "environment.json").read_text(encoding="utf-8"))
    write_json(evidence / "environment.json", {"before": before, "after": after})
    facts["outcome"] = outcome(store, sealed, detail)
    facts["ended_utc"] = utc_now()
    journal_file = evidence / "journal.jsonl"
    digests = {n: d for n, d in evidence_digests(evidence).items() if n != journal_file.name}
    Journal(journal_file).append("sealed", outcome=facts["outcome"], evidence=digests)
    facts["evidence"] = evidence_digests(evidence)
    write_json(folder / "run.json", facts)
    shutil.rmtree(live)
    return Closed(facts, sealed)
