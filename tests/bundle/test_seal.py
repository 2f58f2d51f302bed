"""Sealing: the layout, what is refused, and that there never is half a bundle."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairmark.bundle import seal as seal_module
from fairmark.bundle.manifest import MANIFEST, parse_manifest
from fairmark.bundle.seal import seal
from fairmark.bundle.system import default_system
from fairmark.bundle.verify import verify
from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.closing import evidence_digests
from fairmark.evidence.json_file import write_json

SYSTEM = {
    "schema": "fairmark/system/1",
    "name": "two-core-box",
    "nodes": 1,
    "host": {"cpu": "any", "logical_cores": 2},
    "software": {"engine": "fairmark_sim"},
}


def seal_open(runs: list[Path], out: Path, **changes: Any) -> Path:
    given: dict[str, Any] = {"submitter": "acme", "division": "open", "system": SYSTEM}
    return seal(runs, out, **{**given, **changes})


@pytest.fixture
def copy(server_run: Path, tmp_path: Path) -> Path:
    """A run folder that a test may change."""
    return Path(shutil.copytree(server_run, tmp_path / "copy"))


def edit(folder: Path, change: Any) -> None:
    record = json.loads((folder / "run.json").read_text())
    change(record)
    write_json(folder / "run.json", record)


def redigest(folder: Path) -> None:
    edit(folder, lambda record: record.update(evidence=evidence_digests(folder / "evidence")))


def test_layout_manifest_and_report(server_run: Path, offline_run: Path, tmp_path: Path) -> None:
    bundle = seal_open([server_run, offline_run], tmp_path / "out", report_html="<p>ok</p>")
    assert bundle == tmp_path / "out" / "acme" / "open" / "two-core-box"
    manifest = parse_manifest((bundle / MANIFEST).read_bytes())
    paths = [entry.path for entry in manifest.files]
    assert {"report.html", "system.json"} < set(paths)
    assert "sums/Server/performance/run.json" in paths
    assert "sums/Offline/performance/evidence/wire/worker-0.zst" in paths
    on_disk = {p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.is_file()} - {MANIFEST}
    assert set(paths) == on_disk
    assert verify(bundle) == []
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["acme"]


def test_equal_runs_give_equal_bytes_and_sealing_again_is_no_change(server_run: Path, tmp_path: Path) -> None:
    first = seal_open([server_run], tmp_path / "one")
    other = seal_open([server_run], tmp_path / "two")
    assert (first / MANIFEST).read_bytes() == (other / MANIFEST).read_bytes()
    before = (first / MANIFEST).stat().st_mtime_ns
    assert seal_open([server_run], tmp_path / "one") == first
    assert (first / MANIFEST).stat().st_mtime_ns == before


def test_other_content_in_the_same_place_is_refused_and_kept(
    server_run: Path, offline_run: Path, tmp_path: Path
) -> None:
    bundle = seal_open([server_run], tmp_path)
    before = (bundle / MANIFEST).read_bytes()
    with pytest.raises(InputError, match="already there, with other content"):
        seal_open([offline_run], tmp_path)
    assert (bundle / MANIFEST).read_bytes() == before
    assert not list(tmp_path.glob(".sealing-*"))


def test_a_damaged_bundle_in_the_same_place_is_not_taken_for_equal(server_run: Path, tmp_path: Path) -> None:
    bundle = seal_open([server_run], tmp_path)
    (bundle / "system.json").write_text("{}")
    with pytest.raises(InputError, match="already there"):
        seal_open([server_run], tmp_path)


def test_failing_on_the_way_leaves_nothing(
    server_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(seal_module, "list_files", fail)
    with pytest.raises(OSError, match="No space"):
        seal_open([server_run], tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "/abs", "-x", "x.", "a b", "é", "x" * 65, "a\n"])
def test_names_that_are_no_folder_names(name: str, server_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder name") as refused:
        seal_open([server_run], tmp_path / "out", submitter=name)
    assert refused.value.field == "submitter"
    assert not (tmp_path / "out").exists()


def test_benchmark_of_the_record_cannot_leave_the_bundle(copy: Path, tmp_path: Path) -> None:
    edit(copy, lambda record: record["scenario"].update(benchmark="../../up"))
    with pytest.raises(InputError, match="folder name") as refused:
        seal_open([copy], tmp_path / "out")
    assert refused.value.field == "benchmark"


def test_two_runs_of_one_scenario(server_run: Path, copy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="second run of sums/Server/performance") as refused:
        seal_open([server_run, copy], tmp_path / "out")
    assert str(server_run) in str(refused.value)
    assert refused.value.source == str(copy)


def test_repetitions_lie_beside_each_other(server_run: Path, copy: Path, tmp_path: Path) -> None:
    edit(copy, lambda record: record["plan"].update(repetition=1))
    bundle = seal_open([server_run, copy], tmp_path)
    assert sorted(p.name for p in (bundle / "sums" / "Server").iterdir()) == ["performance", "performance-1"]


def test_no_run_unknown_division_and_mixed_rulesets(
    server_run: Path, offline_run: Path, copy: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no run to seal"):
        seal_open([], tmp_path)
    with pytest.raises(InputError, match="is not a division"):
        seal_open([server_run], tmp_path, division="half-open")
    with pytest.raises(InputError, match="judged by fairmark-open-1"):
        seal_open([server_run], tmp_path, division="closed")
    edit(copy, lambda record: record["verdict"].update(ruleset="fairmark-closed-1"))
    with pytest.raises(InputError, match="divisions are not mixed"):
        seal_open([offline_run, copy], tmp_path)


def test_unjudged_and_unfinished_runs(copy: Path, tmp_path: Path) -> None:
    edit(copy, lambda record: record.pop("verdict"))
    with pytest.raises(EvidenceError, match="has no verdict"):
        seal_open([copy], tmp_path / "out")
    (copy / "run.json").unlink()
    with pytest.raises(EvidenceError, match=r"has no run\.json"):
        seal_open([copy], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("evidence/queries.parquet", lambda p: p.write_bytes(p.read_bytes() + b"x")),
        ("evidence/workers.json", lambda p: p.unlink()),
        ("evidence/notes.txt", lambda p: p.write_text("mine")),
        ("evidence/events.parquet", lambda p: (p.rename(p.parent.parent / "e"), p.symlink_to("../e"))),
    ],
)
def test_evidence_that_is_not_as_recorded(file: str, change: Any, copy: Path, tmp_path: Path) -> None:
    change(copy / file)
    with pytest.raises(EvidenceError, match=file):
        seal_open([copy], tmp_path / "out")


def test_evidence_that_no_bundle_takes(copy: Path, tmp_path: Path) -> None:
    (copy / "evidence" / "core.dump").write_bytes(b"memory")
    redigest(copy)
    with pytest.raises(EvidenceError, match=r"core\.dump.*not a file of a bundle"):
        seal_open([copy], tmp_path / "out")


def test_files_beside_the_run_stay_behind(copy: Path, tmp_path: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    bundle = seal_open([copy], tmp_path / "out")
    assert not list(bundle.rglob("notes.txt"))
    assert verify(bundle) == []


def test_system_description_is_held_to_its_schema(server_run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="logical_cores") as refused:
        seal_open([server_run], tmp_path, system={**SYSTEM, "host": {"cpu": "x"}})
    assert refused.value.field == "host"
    (tmp_path / "system.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        seal_open([server_run], tmp_path, system=tmp_path / "system.json")
    with pytest.raises(InputError, match="cannot be read"):
        seal_open([server_run], tmp_path, system=tmp_path / "none.json")


def test_default_system_is_made_from_what_was_observed(server_run: Path, tmp_path: Path) -> None:
    bundle = seal_open([server_run], tmp_path, system=None)
    environment = json.loads((server_run / "evidence" / "environment.json").read_text())
    system = json.loads((bundle / "system.json").read_text())
    assert system["host"]["logical_cores"] == environment["before"]["cores_logical"]
    assert system["host"]["memory_bytes"] == environment["before"]["memory_bytes"]
    assert system["software"]["engine"] == "fairmark_sim"
    assert bundle.name == system["name"]


def test_default_system_names_cpu_and_engine() -> None:
    before = {
        "cpu_model": "Acme(R) Core(TM) i9 CPU @ 2.40GHz",
        "machine": "x86_64",
        "cores_physical": None,
        "cores_logical": 8,
        "memory_bytes": 1 << 34,
        "system": "Linux",
        "kernel": "6.1",
        "python": "3.11.9",
    }
    system = default_system({"before": before}, {"sut": {"name": "s", "claims": {"engine": "llama.cpp"}}})
    assert system["name"] == "8x-acme-core-i9-cpu-llama.cpp"
    assert system["host"] == {"cpu": before["cpu_model"], "logical_cores": 8, "memory_bytes": 1 << 34}


def test_runs_from_several_hosts_need_a_description(copy: Path, offline_run: Path, tmp_path: Path) -> None:
    path = copy / "evidence" / "environment.json"
    content = json.loads(path.read_text())
    content["before"]["host"] = "0" * 16
    path.write_text(json.dumps(content))
    redigest(copy)
    with pytest.raises(InputError, match="2 hosts"):
        seal_open([copy, offline_run], tmp_path, system=None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_unwritable_place(server_run: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        seal_open([server_run], tmp_path / "out")


def test_a_file_in_the_place_of_the_folder(server_run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        seal_open([server_run], tmp_path / "out")
