"""Where a run's numbers come from: digests, the system's claims, the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fairmark.report.numbers import DASH, bytes_of
from fairmark.report.run_data import RunData

__all__ = ["Pairs", "provenance"]

Pairs = Sequence[tuple[str, str]]


def provenance(run: RunData) -> list[tuple[str, Pairs]]:
    """Titled groups of names and values, every one of them from the record or the evidence."""
    record = run.record
    groups: list[tuple[str, Pairs]] = [
        ("Run", _run(record)),
        ("Digests (SHA-256)", _digests(record)),
        ("System under test", list(flat(record["sut"]))),
        ("Scenario", list(flat(record["scenario"]))),
        ("Environment", list(flat(run.evidence.environment))),
        ("Driver", [pair for i, w in enumerate(run.evidence.workers) for pair in flat(w, f"worker {i}")]),
        ("Evidence files", [(name, _file(entry)) for name, entry in sorted(record["evidence"].items())]),
    ]
    return [(title, pairs) for title, pairs in groups if pairs]


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings and lists, each with its dotted path; null leaves are left out."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list)) for item in value):
        for position, item in enumerate(value):
            yield from flat(item, f"{prefix}.{position}")
    elif isinstance(value, (list, tuple)):
        yield prefix, ", ".join(map(str, value)) or DASH
    elif value is not None:
        yield prefix, str(value).lower() if isinstance(value, bool) else str(value)


def _run(record: Mapping[str, Any]) -> Pairs:
    outcome = record["outcome"]
    return [
        ("run", record["run_id"]),
        ("started", record["started_utc"]),
        ("ended", record["ended_utc"]),
        ("mode, clock", f"{record['mode']}, {record['clock']}"),
        ("outcome", outcome["stop_reason"] + (f": {outcome['detail']}" if outcome["detail"] else "")),
        *((f"phase {p['phase']}", _phase(p)) for p in outcome["phases"]),
        ("attempts", f"{record['attempts']} started runs of this scenario, this one included"),
        ("overrides", ", ".join(record["overrides"]) or "none"),
        ("fairmark", record["fairmark"]["version"]),
    ]


def _phase(phase: Mapping[str, Any]) -> str:
    return f"{phase['issued']} issued, {phase['completed']} completed, ended by {phase['stop_reason']}"


def _digests(record: Mapping[str, Any]) -> Pairs:
    samples, plan = record["samples"], record["plan"]
    pinned = samples["pinned_sha256"]
    pairs = [
        ("scenario", record["scenario_digest"]),
        ("samples", samples["content_sha256"]),
        ("samples as pinned", pinned or "not pinned"),
        ("plan", plan["sha256"]),
        *((f"seed {name}", str(seed)) for name, seed in plan["seeds"].items()),
    ]
    if record["requests"] is not None:
        pairs.append(("requests", record["requests"]["sha256"]))
    if "source_sha256" in record["fairmark"]:
        pairs.append(("fairmark's source", record["fairmark"]["source_sha256"]))
    if "verdict" in record:
        pairs.append(("ruleset", record["verdict"]["ruleset_sha256"]))
    return pairs


def _file(entry: Mapping[str, Any]) -> str:
    return f"{entry['sha256']}  {bytes_of(entry['bytes'])}"
