"""Changing a run and making everything that follows from it fit, as a careful liar would."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairmark.evidence.closing import evidence_digests, facts_sha256
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.journal import Journal
from fairmark.evidence.json_file import write_json
from fairmark.evidence.tables import read_table, table, write_table
from fairmark.judge.judge import judge
from fairmark.judge.rules import load_ruleset
from fairmark.measure.measure import measure


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads((folder / "run.json").read_text())
    change(record)
    write_json(folder / "run.json", record)


def change_rows(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Rewrite an evidence table."""
    path = folder / "evidence" / f"{name}.parquet"
    content = read_table(name, path)
    rows = content.to_pylist()
    change(rows)
    write_table(table(name, {c: [row[c] for row in rows] for c in content.schema.names}), path)


def forge(folder: Path, *, numbers: bool = True) -> None:
    """Make journal, record, metrics and verdict fit the evidence."""
    record = json.loads((folder / "run.json").read_text())
    journal = folder / "evidence" / "journal.jsonl"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.unlink()
    digests = evidence_digests(folder / "evidence")
    for entry in entries:
        facts = {key: value for key, value in entry.items() if key not in ("event", "utc", "prev")}
        if entry["event"] == "sealed":
            sealed = {"outcome": record["outcome"], "evidence": digests}
            facts = {**sealed, "facts_sha256": facts_sha256(record)}
        Journal(journal).append(entry["event"], **facts)
    record["evidence"] = evidence_digests(folder / "evidence")
    if numbers:
        record["metrics"] = measure(load_evidence(folder / "evidence"), record)
        record["verdict"] = judge(record, load_ruleset(record["verdict"]["ruleset"]))
    write_json(folder / "run.json", record)
