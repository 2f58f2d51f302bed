"""Verifying: every change of any file is found, and the finding names the file."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.bundle.manifest import MANIFEST, FileEntry, Manifest, list_files, parse_manifest
from fairmark.bundle.seal import seal
from fairmark.bundle.tree import walk
from fairmark.bundle.verify import verify
from fairmark.errors import EvidenceError, InputError

SYSTEM = {
    "schema": "fairmark/system/1",
    "name": "box",
    "nodes": 1,
    "host": {"cpu": "any", "logical_cores": 2},
    "software": {},
}


@pytest.fixture(scope="module")
def sealed(server_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sealed")
    return seal([server_run], out, submitter="acme", division="open", system=SYSTEM, report_html="<p>")


@pytest.fixture
def bundle(sealed: Path, tmp_path: Path) -> Path:
    """A bundle that a test may change."""
    return Path(shutil.copytree(sealed, tmp_path / "bundle"))


def test_any_changed_byte_of_any_file_is_found_and_named(bundle: Path) -> None:
    chooser = random.Random(7)
    for entry in walk(bundle):
        path = bundle / entry.path
        content = path.read_bytes()
        places = range(len(content)) if len(content) <= 60 else chooser.sample(range(len(content)), 60)
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << chooser.randrange(8)
            path.write_bytes(changed)
            findings = verify(bundle)
            assert entry.path in {f.file for f in findings if f.severity == "error"}, (entry.path, place)
        path.write_bytes(content)
    assert verify(bundle) == []


CHANGES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "missing": (lambda b: (b / "report.html").unlink(), "bundle.missing", "report.html"),
    "extra": (lambda b: (b / "note.txt").write_text("x"), "bundle.extra", "note.txt"),
    "empty folder": (lambda b: (b / "sums" / "more").mkdir(), "bundle.extra", "sums/more"),
    "longer": (lambda b: (b / "report.html").write_text("<p>x"), "bundle.changed", "report.html"),
    "no manifest": (lambda b: (b / MANIFEST).unlink(), "bundle.manifest", MANIFEST),
    "symbolic link": (
        lambda b: (
            (b / "report.html").rename(b.parent / "r"),
            (b / "report.html").symlink_to(b.parent / "r"),
        ),
        "bundle.linked",
        "report.html",
    ),
    "hard link": (lambda b: os.link(b / "report.html", b.parent / "outside"), "bundle.linked", "report.html"),
    "pipe": (lambda b: os.mkfifo(b / "pipe"), "bundle.special", "pipe"),
    "case": (lambda b: (b / "REPORT.html").write_text("x"), "bundle.clash", "report.html"),
    "unicode": (
        lambda b: ((b / "\u00e9").write_text("x"), (b / "e\u0301").write_text("x")),
        "bundle.clash",
        "\u00e9",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_change(name: str, bundle: Path) -> None:
    change, finding, file = CHANGES[name]
    change(bundle)
    assert (finding, file) in {(f.id, f.file) for f in verify(bundle)}


def test_a_linked_folder_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    (bundle / "sums").rename(tmp_path / "sums")
    (bundle / "sums").symlink_to(tmp_path / "sums")
    findings = verify(bundle)
    assert ("bundle.linked", "sums") in {(f.id, f.file) for f in findings}
    assert "sums/Server/performance/run.json" in {f.file for f in findings if f.id == "bundle.missing"}


def test_what_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        verify(tmp_path / "none")


def test_a_manifest_with_new_digests_still_contradicts_itself(bundle: Path) -> None:
    document = json.loads((bundle / MANIFEST).read_text())
    document["files"][0]["sha256"] = "0" * 64
    (bundle / MANIFEST).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    assert [(f.id, f.file) for f in verify(bundle)] == [("bundle.manifest", MANIFEST)]


def relist(bundle: Path) -> None:
    manifest = parse_manifest((bundle / MANIFEST).read_bytes())
    (bundle / MANIFEST).write_bytes(dataclasses.replace(manifest, files=list_files(bundle)).dumps())


def test_a_system_description_that_is_missing_broken_or_of_another_system(bundle: Path) -> None:
    path = bundle / "system.json"
    for content in (b"{}", json.dumps({**SYSTEM, "name": "other"}).encode()):
        path.write_bytes(content)
        relist(bundle)
        assert [(f.id, f.file) for f in verify(bundle)] == [("bundle.system", "system.json")]
    path.unlink()
    relist(bundle)
    assert [(f.id, f.file) for f in verify(bundle)] == [("bundle.system", "system.json")]


@pytest.mark.parametrize("path", ["../out", "a/../b", "/abs", "a//b", "./a", "a\\b", MANIFEST, "a/"])
def test_manifest_paths_outside_the_bundle(path: str) -> None:
    manifest = Manifest("a", "open", "s", (FileEntry(path, 0, "0" * 64),))
    with pytest.raises(EvidenceError, match="not a path inside"):
        parse_manifest(manifest.dumps())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[]", "not of type"),
        (b'{"schema": NaN}', "NaN is not JSON"),
        (b'{"schema": 1, "schema": 1}', "twice"),
        (b'{"schema": "fairmark/manifest/1"}', "required property"),
    ],
)
def test_what_is_no_manifest(data: bytes, problem: str) -> None:
    with pytest.raises(EvidenceError, match=problem):
        parse_manifest(data)


def test_unsorted_and_double_entries() -> None:
    for paths in (("b", "a"), ("a", "a")):
        manifest = Manifest("a", "open", "s", tuple(FileEntry(p, 0, "0" * 64) for p in paths))
        with pytest.raises(EvidenceError, match="not sorted, or one is listed twice"):
            parse_manifest(manifest.dumps())


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0"), min_size=1).filter(
    lambda name: name not in (".", "..", MANIFEST)
)


@given(st.lists(st.tuples(NAMES, st.integers(0, 2**53 - 1)), unique_by=lambda pair: pair[0]))
def test_manifests_survive_being_written_and_read(files: list[tuple[str, int]]) -> None:
    entries = tuple(FileEntry(path, size, "ab" * 32) for path, size in sorted(files))
    manifest = Manifest("acme", "closed", "box", entries)
    assert parse_manifest(manifest.dumps()) == manifest
