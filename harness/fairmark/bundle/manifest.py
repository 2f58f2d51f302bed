"""The manifest: every file of a bundle with its size and SHA-256, in one form only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairmark.bundle.documents import parse_json, render_json, schema_violation
from fairmark.bundle.tree import file_sha256, walk
from fairmark.errors import EvidenceError

__all__ = ["MANIFEST", "FileEntry", "Manifest", "list_files", "parse_manifest"]

MANIFEST: Final = "manifest.json"
"""The manifest's name at the root of a bundle."""

_SCHEMA: Final = "fairmark/manifest/1"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file: path relative to the bundle, size in bytes, SHA-256."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle is and holds. ``files`` is sorted by path and leaves out the manifest itself."""

    submitter: str
    division: str
    system: str
    files: Sequence[FileEntry]

    def dumps(self) -> bytes:
        """The bytes of ``manifest.json``.

        ``root_sha256`` covers everything else in the manifest, so that a changed manifest contradicts
        itself instead of blaming the files that it lists.
        """
        content = self._content()
        return render_json({**content, "root_sha256": _root(content)})

    def sha256(self) -> str:
        """The digest that stands for the whole bundle."""
        return hashlib.sha256(self.dumps()).hexdigest()

    def _content(self) -> dict[str, Any]:
        files = [{"path": f.path, "bytes": f.bytes, "sha256": f.sha256} for f in self.files]
        return {
            "schema": _SCHEMA,
            "submitter": self.submitter,
            "division": self.division,
            "system": self.system,
            "files": files,
        }


def list_files(folder: Path) -> list[FileEntry]:
    """Size and digest of every regular file below ``folder`` but the manifest, sorted by path."""
    return [
        FileEntry(entry.path, entry.size, file_sha256(folder / entry.path))
        for entry in walk(folder)
        if entry.kind == "file" and entry.path != MANIFEST
    ]


def parse_manifest(data: bytes) -> Manifest:
    """Read the bytes of a manifest.

    Raises:
        EvidenceError: they are not JSON, break the schema, contradict their own ``root_sha256``, or are
            spelled in another way than `Manifest.dumps` does.
    """
    try:
        document = parse_json(data)
    except ValueError as error:
        raise EvidenceError(f"{MANIFEST} is not JSON: {error}") from error
    broken = schema_violation(document, "manifest.schema.json")
    if broken is not None:
        raise EvidenceError(f"{MANIFEST}: {broken[0]}: {broken[1]}")
    manifest = Manifest(
        submitter=document["submitter"],
        division=document["division"],
        system=document["system"],
        files=tuple(FileEntry(**entry) for entry in document["files"]),
    )
    content = {key: value for key, value in document.items() if key != "root_sha256"}
    if document["root_sha256"] != _root(content):
        raise EvidenceError(f"{MANIFEST} was changed: its content no longer has the digest it states")
    if manifest.dumps() != data:
        raise EvidenceError(f"{MANIFEST} was changed: it says the same in another spelling")
    _check_paths([entry.path for entry in manifest.files])
    return manifest


def _root(content: Mapping[str, Any]) -> str:
    import rfc8785

    return hashlib.sha256(rfc8785.dumps(dict(content))).hexdigest()


def _check_paths(paths: Sequence[str]) -> None:
    if list(paths) != sorted(set(paths)):
        raise EvidenceError(f"{MANIFEST}: its files are not sorted, or one is listed twice")
    for path in paths:
        parts = path.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in path or path == MANIFEST:
            raise EvidenceError(f"{MANIFEST}: {path!r} is not a path inside the bundle")
