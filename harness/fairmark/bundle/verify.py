"""Check the files of a bundle against its manifest: nothing changed, missing, added or linked."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from fairmark.bundle.findings import Finding
from fairmark.bundle.manifest import MANIFEST, FileEntry, Manifest, parse_manifest
from fairmark.bundle.run_folder import belongs
from fairmark.bundle.system import SYSTEM, load_system
from fairmark.bundle.tree import Entry, file_sha256, walk
from fairmark.errors import EvidenceError, InputError

__all__ = ["REPORT", "is_bundle", "verify"]

REPORT: Final = "report.html"
"""The report's name at the root of a bundle."""

_RESEAL = "get the bundle again from its submitter, or seal the runs again with `fairmark bundle`"


def is_bundle(path: Path) -> bool:
    """Whether ``path`` claims to be a bundle: a folder with a manifest or a system description."""
    return path.is_dir() and ((path / MANIFEST).exists() or (path / SYSTEM).exists())


def verify(bundle: Path) -> list[Finding]:
    """Every way in which the files of ``bundle`` differ from what its manifest lists, sorted by file.

    An empty list means: the bundle holds exactly the files that the manifest lists, byte for byte, as
    regular files of its own. It does not mean that their content is true; that is the audit's question.

    Raises:
        InputError: ``bundle`` is not a folder.
    """
    if not bundle.is_dir():
        raise InputError("is not a folder", source=bundle, accepted="the root folder of a bundle")
    entries = walk(bundle)
    findings = list(_unfit_entries(entries))
    manifest, problem = _manifest(bundle, entries)
    if problem is not None:
        findings.append(problem)
    if manifest is not None:
        findings.extend(_differences(bundle, entries, manifest))
        findings.extend(_identity(bundle, manifest))
    return sorted(findings, key=lambda f: (f.file, f.id))


def _manifest(bundle: Path, entries: Sequence[Entry]) -> tuple[Manifest | None, Finding | None]:
    if not any(entry.path == MANIFEST and entry.kind == "file" for entry in entries):
        return None, _error("bundle.manifest", MANIFEST, "the manifest is missing, so nothing can be checked")
    try:
        return parse_manifest((bundle / MANIFEST).read_bytes()), None
    except EvidenceError as error:
        return None, _error("bundle.manifest", MANIFEST, str(error))


def _unfit_entries(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Entries that no manifest can vouch for, whatever it says."""
    inside = Counter(entry.identity for entry in entries if entry.kind == "file")
    for entry in entries:
        if entry.kind == "symlink":
            yield _error("bundle.linked", entry.path, "is a symbolic link; a bundle holds its own files")
        elif entry.kind == "special":
            yield _error("bundle.special", entry.path, "is a device, pipe or socket; a bundle holds files")
        elif entry.kind == "empty_folder":
            yield _error("bundle.extra", entry.path, "is an empty folder, which no manifest lists")
        elif entry.links > inside[entry.identity]:
            yield _error(
                "bundle.linked", entry.path, "has a hard link outside the bundle, through which it can change"
            )
    yield from _case_clashes(entry.path for entry in entries)


def _case_clashes(paths: Iterable[str]) -> Iterator[Finding]:
    """Paths that would be one file on a file system that ignores case or Unicode composition."""
    seen: dict[str, str] = {}
    for path in paths:
        folded = unicodedata.normalize("NFC", path).casefold()
        if folded in seen:
            yield _error(
                "bundle.clash", path, f"differs from {seen[folded]} only in case or Unicode composition"
            )
        seen.setdefault(folded, path)


def _differences(bundle: Path, entries: Sequence[Entry], manifest: Manifest) -> Iterator[Finding]:
    listed = {entry.path: entry for entry in manifest.files}
    found = {entry.path: entry for entry in entries if entry.kind == "file" and entry.path != MANIFEST}
    others = {entry.path for entry in entries if entry.kind != "file"}
    for path in listed.keys() - found.keys() - others:
        yield _error("bundle.missing", path, "is listed in the manifest and missing")
    for path in found.keys() - listed.keys():
        yield _error("bundle.extra", path, "is not listed in the manifest")
    for path in listed.keys() & found.keys():
        if not _has_a_place(path):
            yield _error("bundle.unexpected", path, "is listed, but no file of a bundle or of a run")
        change = _change(bundle / path, found[path], listed[path])
        if change is not None:
            yield _error("bundle.changed", path, change)


def _has_a_place(path: str) -> bool:
    """Whether bundles have a file at ``path``: two at the root, and those of runs three folders down."""
    return path in (SYSTEM, REPORT) or (path.count("/") >= 3 and belongs(path.split("/", 3)[3]))


def _change(path: Path, found: Entry, listed: FileEntry) -> str | None:
    if found.size != listed.bytes:
        return f"has {found.size} bytes where the manifest lists {listed.bytes}"
    digest = file_sha256(path)
    if digest != listed.sha256:
        return f"has SHA-256 {digest} where the manifest lists {listed.sha256}"
    return None


def _identity(bundle: Path, manifest: Manifest) -> Iterator[Finding]:
    if not any(entry.path == SYSTEM for entry in manifest.files):
        yield _error("bundle.system", SYSTEM, "the bundle describes no system")
        return
    if not (bundle / SYSTEM).is_file():  # listed and missing, which is a finding of its own
        return
    try:
        system = load_system(bundle / SYSTEM)
    except InputError as error:
        yield _error("bundle.system", SYSTEM, str(error))
        return
    if system["name"] != manifest.system:
        yield _error(
            "bundle.system", SYSTEM, f"describes {system['name']!r}; the manifest names {manifest.system!r}"
        )


def _error(finding: str, file: str, message: str) -> Finding:
    return Finding(finding, "error", file, message, _RESEAL)
