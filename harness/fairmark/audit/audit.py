"""Audit: everything in a bundle or a run is derived again from its evidence, and must come out equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairmark.audit.decoding import check_decoding, check_output_digests
from fairmark.audit.endpoints import check_endpoints
from fairmark.audit.identity import check_identity
from fairmark.audit.numbers import check_numbers
from fairmark.audit.outcome import check_outcome
from fairmark.audit.problems import Problems
from fairmark.audit.series import check_repetitions, check_series
from fairmark.audit.subject import load_subject, record_of
from fairmark.audit.traffic import check_traffic
from fairmark.bundle.findings import Finding, has_errors
from fairmark.bundle.manifest import MANIFEST, parse_manifest
from fairmark.bundle.names import ruleset_fits
from fairmark.bundle.run_folder import RECORD, is_run, place_of, refuse_profile
from fairmark.bundle.verify import is_bundle, verify
from fairmark.errors import InputError
from fairmark.judge.series import SERIES
from fairmark.measure.programs import Runner

__all__ = ["AuditReport", "audit"]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        findings: sorted by file; empty when everything was derived again and came out equal.
        recorded: ``{"metrics", "verdict"}`` of each run as the record states them, by the run's folder
            relative to what was audited (``.`` for a run folder itself).
        recomputed: the same from the evidence alone; a run that could not be recomputed is not there.
    """

    findings: tuple[Finding, ...]
    recorded: Mapping[str, Mapping[str, Any]]
    recomputed: Mapping[str, Mapping[str, Any]]

    @property
    def passed(self) -> bool:
        """Whether nothing at error level was found."""
        return not has_errors(self.findings)


def audit(path: Path, *, run_program: Runner | None = None) -> AuditReport:
    """Audit a bundle or a run folder from nothing but its own files.

    The system under test, plugins, clocks and the network are not used. Numbers are recomputed only from
    files whose digests hold: from changed evidence any number could follow.

    Args:
        run_program: runs answers that are programs again; without it their score is taken as recorded, with a
            warning.

    Raises:
        InputError: ``path`` is neither a bundle nor a run folder nor a folder of repetitions, or it is a
            profile run.
    """
    if is_bundle(path):
        return _audit_bundle(path, run_program)
    if is_run(path):
        record = record_of(path, Problems())
        if record is not None:
            refuse_profile(path, record)
        return _report({"": path}, [], run_program)
    if (path / SERIES).is_file():
        return _audit_series(path, run_program)
    raise InputError(
        "is neither a bundle nor a run folder",
        source=path,
        accepted="a folder with manifest.json, run.json or series.json",
    )


def _audit_series(folder: Path, run_program: Runner | None) -> AuditReport:
    """A run with its repetitions: each of them, and the document on all of them."""
    runs = {f"{p.parent.name}/": p.parent for p in sorted(folder.glob(f"*/{RECORD}"))}
    report = _report(runs, [], run_program)
    return replace(report, findings=_ordered([*report.findings, *check_series(folder, runs.values())]))


def _audit_bundle(bundle: Path, run_program: Runner | None) -> AuditReport:
    findings = verify(bundle)
    runs = {f"{p.parent.relative_to(bundle).as_posix()}/": p.parent for p in sorted(bundle.rglob(RECORD))}
    if not runs:
        findings.append(
            Finding("audit.no-runs", "error", MANIFEST, "the bundle holds no run", "seal runs into it")
        )
    touched = {finding.file for finding in findings if finding.severity == "error"}
    intact = {
        prefix: folder for prefix, folder in runs.items() if not any(f.startswith(prefix) for f in touched)
    }
    report = _report(intact, findings, run_program)
    if MANIFEST in touched:
        return report
    division = parse_manifest((bundle / MANIFEST).read_bytes()).division
    lacking = check_repetitions(intact)
    misplaced = [f for prefix, folder in intact.items() for f in _misplaced(prefix, folder, division)]
    return replace(report, findings=_ordered([*report.findings, *misplaced, *lacking]))


def _misplaced(prefix: str, folder: Path, division: str) -> Iterator[Finding]:
    """A run that lies where another one should, or in a division whose rules did not judge it."""
    record = record_of(folder, Problems())
    if record is None:
        return
    file, fix = f"{prefix}{RECORD}", "seal the runs again with `fairmark bundle`"
    if not _is_place_of(record, prefix.rstrip("/")):
        yield Finding("audit.place", "error", file, "is the record of a run that belongs elsewhere", fix)
    ruleset = (record.get("verdict") or {}).get("ruleset", "")
    if not ruleset_fits(ruleset, division):
        yield Finding(
            "audit.division", "error", file, f"was judged by {ruleset!r}, but the division is {division}", fix
        )


def _is_place_of(record: Mapping[str, Any], place: str) -> bool:
    try:
        return place_of(record) == place
    except InputError:
        return False


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda f: (f.file, f.id, f.message)))


def _report(runs: Mapping[str, Path], findings: list[Finding], run_program: Runner | None) -> AuditReport:
    recorded: dict[str, Mapping[str, Any]] = {}
    recomputed: dict[str, Mapping[str, Any]] = {}
    for prefix, folder in runs.items():
        problems = Problems()
        name = prefix.rstrip("/") or "."
        record = record_of(folder, problems)
        if record is not None:
            recorded[name] = {key: record.get(key) for key in ("metrics", "verdict")}
            numbers = _audit_run(folder, record, problems, run_program)
            if numbers is not None:
                recomputed[name] = numbers
        findings = [*findings, *problems.below(prefix)]
    return AuditReport(_ordered(findings), recorded, recomputed)


def _audit_run(
    folder: Path, record: dict[str, Any], problems: Problems, run_program: Runner | None
) -> dict[str, Any] | None:
    """All checks of one run; its numbers, unless it could not be loaded."""
    subject = load_subject(folder, record, problems)
    if subject is None:
        return None
    check_identity(subject, problems)
    check_traffic(subject, problems)
    check_outcome(subject, problems)
    check_decoding(subject, problems)
    check_endpoints(subject, problems)
    check_output_digests(subject, problems)
    return check_numbers(subject, problems, run_program)
