"""Seal finished runs into a bundle: copied, described, listed in a manifest, and there all at once."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmark.bundle.documents import parse_json, render_json
from fairmark.bundle.manifest import MANIFEST, Manifest, list_files
from fairmark.bundle.names import checked_division, checked_name, ruleset_fits
from fairmark.bundle.privacy import find_leaks, this_machine
from fairmark.bundle.run_folder import (
    ENVIRONMENT,
    RECORD,
    SCENARIO,
    belongs,
    digest_findings,
    load_record,
    place_of,
    refuse_profile,
)
from fairmark.bundle.system import SYSTEM, checked_system, default_system, load_system
from fairmark.bundle.tree import walk
from fairmark.bundle.verify import REPORT, verify
from fairmark.errors import EvidenceError, InputError
from fairmark.judge.series import incomplete, series_of

__all__ = ["seal"]


@dataclass(frozen=True, slots=True)
class _Run:
    folder: Path
    record: dict[str, Any]
    place: str
    """Where it goes, relative to the bundle: benchmark/scenario/run."""


def seal(
    runs: Sequence[Path],
    out: Path,
    *,
    submitter: str,
    division: str,
    system: Mapping[str, Any] | Path | None = None,
    report_html: str | None = None,
) -> Path:
    """Seal ``runs`` into ``out/<submitter>/<division>/<system>/`` and return that folder.

    Below it lie ``<benchmark>/<scenario>/<mode>[-<repetition>]/`` for each run, ``system.json``,
    ``report.html`` when given, and ``manifest.json``. The bundle is made beside its place and renamed into
    it, so that there never is half a bundle. Equal runs give equal bytes; sealing them again is no change.

    Args:
        runs: finished and judged run folders.
        out: the submissions folder; made when missing.
        submitter: who hands it in; becomes a folder name.
        division: one of `names.DIVISIONS`.
        system: the system description or its file; None describes the host that the runs recorded.
        report_html: a rendered report to put at the root.

    Raises:
        InputError: a name, the division, the system description or the choice of runs cannot be accepted, a
            run is a profile, something private is in a file, or another bundle is already there.
        EvidenceError: a run is unfinished, not judged, or its evidence is not what its record says.
    """
    checked_name(submitter, "submitter")
    checked_division(division)
    found = _load(runs)
    _check_division(found, division)
    _check_repetitions(found)
    description = _description(system, found)
    name = checked_name(description["name"], "system.name")
    target = out / submitter / division / name
    with _staging(out) as stage:
        for run in found:
            _copy_run(run, stage / run.place)
        (stage / SYSTEM).write_bytes(render_json(description))
        if report_html is not None:
            (stage / REPORT).write_text(report_html, encoding="utf-8")
        _refuse_private(stage)
        manifest = Manifest(submitter, division, name, list_files(stage))
        (stage / MANIFEST).write_bytes(manifest.dumps())
        _put_in_place(stage, target, manifest)
    return target


def _load(runs: Sequence[Path]) -> list[_Run]:
    if not runs:
        raise InputError("there is no run to seal", accepted="at least one run folder")
    found: dict[str, _Run] = {}
    for folder in runs:
        record = load_record(folder)
        refuse_profile(folder, record)
        if "verdict" not in record or "metrics" not in record:
            raise EvidenceError(
                f"{folder}: has no verdict; `fairmark recover` closes and judges a run that was killed"
            )
        problems = digest_findings(folder, record)
        if problems:
            first = problems[0]
            raise EvidenceError(f"{folder / first.file}: {first.message} ({len(problems)} such findings)")
        run = _Run(folder, record, place_of(record))
        clash = found.get(run.place.casefold())
        if clash is not None:
            raise InputError(
                f"is a second run of {run.place}, beside {clash.folder}",
                source=folder,
                accepted="one run of each scenario, mode and repetition",
            )
        found[run.place.casefold()] = run
    return sorted(found.values(), key=lambda run: run.place)


def _check_division(runs: Sequence[_Run], division: str) -> None:
    """All runs under one ruleset, and the closed division only under closed rules."""
    first = runs[0].record["verdict"]["ruleset"]
    for run in runs:
        ruleset = run.record["verdict"]["ruleset"]
        if ruleset != first:
            raise InputError(
                f"was judged by {ruleset}, but {runs[0].folder} by {first}: divisions are not mixed",
                source=run.folder,
                accepted="runs judged by one ruleset",
            )
    if not ruleset_fits(first, division):
        raise InputError(
            f"the runs were judged by {first}",
            field="division",
            value=division,
            accepted="open, or runs made with: fairmark run … --ruleset fairmark-closed-1",
        )


def _check_repetitions(runs: Sequence[_Run]) -> None:
    """Either all repetitions that a run asks for, or it is not what its settings say."""
    for group in series_of(run.record for run in runs):
        lacking = incomplete(group)
        if lacking:
            raise InputError(
                f"{lacking[0]} of {place_of(group[0])}",
                field="RUNS",
                accepted="every repetition of one series that settings.repetitions asks for, failed ones too",
            )


def _description(system: Mapping[str, Any] | Path | None, runs: Sequence[_Run]) -> dict[str, Any]:
    if isinstance(system, Path):
        return load_system(system)
    if system is not None:
        return checked_system(dict(system), source="system")
    return default_system(_environment(runs), runs[0].record)


def _environment(runs: Sequence[_Run]) -> dict[str, Any]:
    """The environment of the runs, which must all have seen one host.

    Raises:
        InputError: they saw several, so that one description cannot be made for them.
    """
    found = [parse_json((run.folder / ENVIRONMENT).read_bytes()) for run in runs]
    hosts = {str(environment["before"]["host"]) for environment in found}
    if len(hosts) > 1:
        raise InputError(
            f"the runs were driven from {len(hosts)} hosts",
            field="system",
            accepted="a system description, given as a file",
        )
    environment: dict[str, Any] = found[0]
    return environment


@contextmanager
def _staging(out: Path) -> Iterator[Path]:
    """A new folder on the file system of ``out``; what is still in it at the end is removed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        holder = Path(tempfile.mkdtemp(prefix=".sealing-", dir=out))
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", source=out, accepted="a folder you can write"
        ) from error
    stage = holder / "bundle"
    stage.mkdir()
    try:
        yield stage
    finally:
        shutil.rmtree(holder)


def _copy_run(run: _Run, target: Path) -> None:
    """Copy what belongs to a run and nothing else, then hold the copy to the record."""
    for entry in walk(run.folder):
        if entry.kind != "file" or not belongs(entry.path):
            continue
        copy = target / entry.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(run.folder / entry.path, copy)
    missing = [name for name in (RECORD, SCENARIO) if not (target / name).is_file()]
    if missing:
        raise EvidenceError(f"{run.folder}: has no {missing[0]}")
    left_out = digest_findings(target, run.record)
    if left_out:
        raise EvidenceError(f"{run.folder / left_out[0].file}: {left_out[0].message}; not a file of a bundle")


def _refuse_private(stage: Path) -> None:
    files = [entry.path for entry in walk(stage)]
    leaks = find_leaks(stage, files, this_machine())
    if leaks:
        raise InputError(
            f"holds {leaks[0].what}, and bundles hold nothing private ({len(leaks)} such findings)",
            source=leaks[0].file,
            accepted="names and paths that mean something on every machine",
        )


def _put_in_place(stage: Path, target: Path, manifest: Manifest) -> None:
    """Make ``stage`` become ``target`` in one step, unless something else is there."""
    if target.exists():
        if not _is_same(target, manifest):
            raise InputError(
                "is already there, with other content",
                source=target,
                accepted="another --out folder or system name, or remove it first",
            )
        return
    _sync(stage)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        stage.rename(target)
    except OSError as error:
        raise InputError(f"cannot be put in place: {error.strerror}", source=target) from error
    _sync_folder(target.parent)


def _is_same(target: Path, manifest: Manifest) -> bool:
    existing = target / MANIFEST
    return existing.is_file() and existing.read_bytes() == manifest.dumps() and not verify(target)


def _sync(folder: Path) -> None:
    """Force everything below ``folder`` to disk: a rename may otherwise outlive what it names."""
    for current, _, names in os.walk(folder):
        for name in names:
            with (Path(current) / name).open("rb") as file:
                os.fsync(file.fileno())
        _sync_folder(Path(current))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
