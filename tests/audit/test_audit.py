"""Audits: true runs pass; every lie fails, also when all digests were made to fit it."""

from __future__ import annotations

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import zstandard
from tests.audit.forging import change_rows, edit, forge

from fairmark.audit.audit import AuditReport, audit
from fairmark.bundle.manifest import MANIFEST, list_files, parse_manifest
from fairmark.bundle.seal import seal
from fairmark.bundle.tree import walk
from fairmark.errors import InputError
from fairmark.evidence.closing import evidence_digests

SYSTEM = {
    "schema": "fairmark/system/1",
    "name": "box",
    "nodes": 1,
    "host": {"cpu": "any", "logical_cores": 2},
    "software": {},
}


@pytest.fixture
def run(server_run: Path, tmp_path: Path) -> Path:
    """A Server run that a test may change."""
    return Path(shutil.copytree(server_run, tmp_path / "run"))


@pytest.fixture(scope="module")
def sealed(server_run: Path, offline_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("sealed")
    runs = [server_run, offline_run]
    return seal(runs, out, submitter="acme", division="open", system=SYSTEM, report_html="<p>")


@pytest.fixture
def bundle(sealed: Path, tmp_path: Path) -> Path:
    """A bundle of two runs that a test may change."""
    return Path(shutil.copytree(sealed, tmp_path / "bundle"))


def ids(report: AuditReport) -> set[tuple[str, str]]:
    return {(finding.id, finding.file) for finding in report.findings if finding.severity == "error"}


def test_true_runs_pass_and_every_number_comes_out_equal(
    server_run: Path, offline_run: Path, make_run: Callable[..., Path]
) -> None:
    others = [
        make_run("SingleStream", queries=32, ttft_ms=2, mode="submission"),
        make_run("Server", queries=48, faults=("truncate@every=7", "error@every=11", "until-close@every=5")),
        make_run("Server", queries=32, stream=False),
    ]
    for folder in (server_run, offline_run, *others):
        report = audit(folder)
        assert report.findings == ()
        assert report.passed
        assert report.recomputed == report.recorded


def test_a_true_bundle_passes_run_by_run(sealed: Path) -> None:
    report = audit(sealed)
    assert report.findings == ()
    assert set(report.recomputed) == {"sums/Offline/performance", "sums/Server/performance"}
    assert report.recomputed == report.recorded


def test_any_changed_byte_of_a_bundle_fails_and_names_the_file(server_run: Path, tmp_path: Path) -> None:
    bundle = seal([server_run], tmp_path, submitter="acme", division="open", system=SYSTEM, report_html="<p>")
    chooser = random.Random(11)
    for entry in walk(bundle):
        path = bundle / entry.path
        content = bytearray(path.read_bytes())
        if not content:
            continue
        place = chooser.randrange(len(content))
        content[place] ^= 1 << chooser.randrange(8)
        original = path.read_bytes()
        path.write_bytes(content)
        report = audit(bundle)
        assert not report.passed
        assert entry.path in {finding.file for finding in report.findings}, (entry.path, place)
        path.write_bytes(original)


def test_a_damaged_run_does_not_keep_the_other_from_being_recomputed(bundle: Path) -> None:
    (bundle / "sums/Server/performance/evidence/events.parquet").write_bytes(b"")
    report = audit(bundle)
    assert ids(report) == {("bundle.changed", "sums/Server/performance/evidence/events.parquet")}
    assert set(report.recomputed) == {"sums/Offline/performance"}


def remake_manifest(bundle: Path, **changes: Any) -> None:
    """What a liar does after changing files: list them anew."""
    manifest = parse_manifest((bundle / MANIFEST).read_bytes())
    manifest = dataclasses.replace(manifest, files=list_files(bundle), **changes)
    (bundle / MANIFEST).write_bytes(manifest.dumps())


def test_runs_that_changed_places(bundle: Path) -> None:
    sums = bundle / "sums"
    (sums / "Server").rename(sums / "x")
    (sums / "Offline").rename(sums / "Server")
    (sums / "x").rename(sums / "Offline")
    remake_manifest(bundle)
    assert ids(audit(bundle)) == {
        ("audit.place", "sums/Offline/performance/run.json"),
        ("audit.place", "sums/Server/performance/run.json"),
    }


def test_open_runs_in_the_closed_division(bundle: Path) -> None:
    remake_manifest(bundle, division="closed")
    report = audit(bundle)
    assert {finding.id for finding in report.findings} == {"audit.division"}
    assert len(report.findings) == 2


def test_files_that_bundles_do_not_have(bundle: Path) -> None:
    (bundle / "sums/Server/performance/evidence/patch.bin").write_bytes(b"x")
    (bundle / "notes.txt").write_text("x")
    remake_manifest(bundle)
    assert {("bundle.unexpected", "notes.txt")} < ids(audit(bundle))
    assert ("bundle.unexpected", "sums/Server/performance/evidence/patch.bin") in ids(audit(bundle))


def test_a_bundle_without_runs(bundle: Path) -> None:
    shutil.rmtree(bundle / "sums")
    remake_manifest(bundle)
    assert ids(audit(bundle)) == {("audit.no-runs", "manifest.json")}


def test_what_is_neither(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a bundle nor a run folder"):
        audit(tmp_path)


def test_a_bundle_without_manifest_is_still_held_to_be_one(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    assert ("bundle.manifest", "manifest.json") in ids(audit(bundle))


def counted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the performance phase."""
    return [row for row in rows if row.get("phase", "performance") == "performance"]


def bump(name: str, by: int = 1) -> Callable[[list[dict[str, Any]]], object]:
    def change(rows: list[dict[str, Any]]) -> None:
        counted(rows)[5][name] += by

    return change


def earlier(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["arrival_ns"] -= 5


def faster(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["first_token_ns"] -= (row["first_token_ns"] - row["first_byte_ns"]) // 2


def swap(rows: list[dict[str, Any]]) -> None:
    one = counted(rows)[5]
    other = next(row for row in counted(rows)[6:] if row["sample_index"] != one["sample_index"])
    one["sample_index"], other["sample_index"] = other["sample_index"], one["sample_index"]


def rewrite(rows: list[dict[str, Any]]) -> None:
    rows[3]["text"] = "the right answer"


def success(rows: list[dict[str, Any]]) -> None:
    row = counted(rows)[5]
    row.update(output_tokens=row["output_tokens"] * 2)


QUERIES = "evidence/queries.parquet"
PLAN = "evidence/plan.parquet"

LIES: dict[str, tuple[str, Callable[[list[dict[str, Any]]], object], tuple[str, str]]] = {
    "a first token that came earlier": ("queries", faster, ("audit.decoding", QUERIES)),
    "more tokens than the server said": ("queries", success, ("audit.decoding", QUERIES)),
    "an easier sample": ("queries", swap, ("audit.delivery", QUERIES)),
    "a later scheduled time": ("queries", bump("scheduled_ns"), ("audit.delivery", QUERIES)),
    "a query left out": ("queries", lambda rows: rows.pop(), ("audit.counts", "run.json")),
    "a query twice": ("queries", lambda rows: rows.append(rows[0]), ("audit.exactly-once", QUERIES)),
    "an end before the last read": ("queries", bump("completed_ns", -1), ("audit.decoding", QUERIES)),
    "an end after the response": ("queries", bump("completed_ns"), ("audit.decoding", QUERIES)),
    "a query of another worker": ("queries", bump("worker"), ("audit.delivery", QUERIES)),
    "a query of nobody": ("queries", bump("seq", 10**6), ("audit.delivery", QUERIES)),
    "another phase": (
        "queries",
        lambda rows: counted(rows)[5].update(phase="warmup"),
        ("audit.delivery", QUERIES),
    ),
    "an answer before it was asked for": (
        "queries",
        lambda rows: counted(rows)[5].update(sent_ns=counted(rows)[5]["completed_ns"] + 1),
        ("audit.stamps", QUERIES),
    ),
    "another plan": ("plan", bump("scheduled_ns"), ("audit.plan", PLAN)),
    "another order": ("plan", swap, ("audit.plan", PLAN)),
    "a shorter plan": ("plan", lambda rows: rows.pop(), ("audit.plan", PLAN)),
    "another answer": ("outputs", rewrite, ("audit.decoding", "evidence/outputs.parquet")),
    "an event less": ("events", lambda rows: rows.pop(5), ("audit.decoding", "evidence/events.parquet")),
    "another question": (
        "samples",
        lambda rows: rows[3].update(row='{"question":"What is 1 plus 1?"}'),
        ("audit.samples", "run.json"),
    ),
    "a sample out of place": (
        "samples",
        lambda rows: rows.reverse(),
        ("audit.samples", "evidence/samples.parquet"),
    ),
    "reads that overlap": ("reads", bump("offset"), ("audit.wire", "evidence/wire/worker-0.zst")),
    "a read that came earlier": ("reads", earlier, ("audit.decoding", QUERIES)),
    "a read of nobody": ("reads", bump("worker", 9), ("audit.wire", "evidence/wire/worker-0.zst")),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_whose_digests_all_fit(name: str, run: Path) -> None:
    tampered, change, expected = LIES[name]
    change_rows(run, tampered, change)
    forge(run)
    assert expected in ids(audit(run))


def test_rewritten_wire_bytes(run: Path) -> None:
    path = run / "evidence" / "wire" / "worker-0.zst"
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        wire = stream.read()
    assert b'"finish_reason"' in wire
    path.write_bytes(zstandard.compress(wire.replace(b"content", b"reasoni", 40)))
    forge(run)
    assert any(found == "audit.decoding" for found, _ in ids(audit(run)))


RECORD_LIES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a better percentile": (
        lambda r: r["metrics"]["performance"]["latency"]["ttft_ns"]["from_schedule"].update(p99_ns=1),
        "audit.metrics",
    ),
    "a rate, in its thirteenth digit": (
        lambda r: r["metrics"]["performance"]["rates"].update(
            qps=r["metrics"]["performance"]["rates"]["qps"] * (1 + 1e-11)
        ),
        "audit.metrics",
    ),
    "another verdict": (
        lambda r: r["verdict"].update(
            verdict="INSUFFICIENT" if r["verdict"]["verdict"] != "INSUFFICIENT" else "INVALID"
        ),
        "audit.verdict",
    ),
    "a rule that passed": (
        lambda r: r["verdict"]["rules"][0].update(message="all is well"),
        "audit.verdict",
    ),
    "no verdict": (lambda r: r.pop("verdict"), "audit.verdict"),
    "another mode, which other rules apply to": (lambda r: r.update(mode="accuracy"), "audit.mode"),
    "another clock": (lambda r: r.update(clock="virtual"), "audit.clock"),
    "no requests": (lambda r: r.update(requests=None), "audit.requests"),
    "another version of the rules": (
        lambda r: r["verdict"].update(ruleset_sha256="0" * 64),
        "audit.ruleset",
    ),
    "another scenario digest": (lambda r: r.update(scenario_digest="0" * 64), "audit.scenario"),
    "a looser bound": (
        lambda r: r["scenario"]["constraints"].update(ttft_ms=9000),
        "audit.scenario",
    ),
    "an override that was none": (lambda r: r.update(overrides=["settings.target_qps=9"]), "audit.scenario"),
    "another plan digest": (lambda r: r["plan"].update(sha256="0" * 64), "audit.plan"),
    "other seeds": (lambda r: r["plan"]["seeds"].update(qsl="1"), "audit.plan"),
    "other base seeds": (lambda r: r["plan"]["base_seeds"].update(qsl="1"), "audit.plan"),
    "a repetition that was none": (lambda r: r["plan"].update(repetition=1), "audit.plan"),
    "a nonce that was none": (lambda r: r["plan"].update(nonce="late"), "audit.plan"),
    "another request digest": (lambda r: r["requests"].update(sha256="0" * 64), "audit.requests"),
    "another model in the requests": (lambda r: r["requests"].update(model="big"), "audit.requests"),
    "fewer requests": (lambda r: r["requests"].update(count=1), "audit.requests"),
    "a pin that is none": (lambda r: r["samples"].update(pinned_sha256="0" * 64), "audit.samples"),
    "another source": (lambda r: r["samples"].update(source="fairmark:gsm8k-test"), "audit.samples"),
    "a longer plan": (lambda r: r["plan"]["phases"][-1].update(duration_ns=10**12), "audit.plan"),
    "another claim of the system": (lambda r: r["sut"]["claims"].update(model="big"), "audit.facts"),
    "other options": (lambda r: r["sut"]["options"].update(output_tokens=99), "audit.facts"),
    "another plugin": (lambda r: r["sut"]["plugin"].update(module="acme"), "audit.facts"),
    "another version": (lambda r: r["fairmark"].update(version="9.9"), "audit.facts"),
    "another day": (lambda r: r.update(started_utc="2020-01-01T00:00:00Z"), "audit.facts"),
    "another end": (lambda r: r.update(ended_utc="2020-01-01T00:00:00Z"), "audit.facts"),
    "the first of many attempts": (lambda r: r.update(attempts=17), "audit.facts"),
    "a run that ended well": (lambda r: r["outcome"].update(detail="all fine"), "audit.journal"),
    "more completed": (lambda r: r["outcome"]["phases"][-1].update(completed=10**6), "audit.counts"),
}


@pytest.mark.parametrize("name", RECORD_LIES)
def test_lies_in_the_record(name: str, run: Path) -> None:
    change, expected = RECORD_LIES[name]
    edit(run, change)
    report = audit(run)
    assert not report.passed
    assert expected in {finding for finding, _ in ids(report)}


def test_a_journal_with_a_broken_chain(run: Path) -> None:
    journal = run / "evidence" / "journal.jsonl"
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join([lines[0].replace("started", "startled"), *lines[1:]]) + "\n")
    edit(run, lambda record: record.update(evidence=evidence_digests(run / "evidence")))
    assert ids(audit(run)) == {("audit.journal", "evidence/journal.jsonl")}


def test_a_journal_that_seals_something_else(run: Path) -> None:
    # A row is added: a quiet run may have none that could be taken away.
    pause = {"worker": 0, "t_ns": 1, "name": "gc_pause_ns", "value": 1.0}
    change_rows(run, "health", lambda rows: rows.append(pause))
    edit(run, lambda record: record.update(evidence=evidence_digests(run / "evidence")))
    assert ("audit.journal", "evidence/journal.jsonl") in ids(audit(run))


def test_scenario_file_that_is_not_the_record(run: Path) -> None:
    path = run / "scenario.toml"
    path.write_text(path.read_text().replace("ttft_ms = 60", "ttft_ms = 61"))
    assert ("audit.scenario", "scenario.toml") in ids(audit(run))
    path.write_text("not toml")
    assert ids(audit(run)) == {("audit.scenario", "scenario.toml")}
    path.unlink()
    assert ids(audit(run)) == {("audit.scenario", "scenario.toml")}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("queries.parquet", b"PAR1"),
        ("workers.json", b"{}"),
        ("environment.json", b"[1"),
        ("wire/worker-0.zst", b"junk"),
    ],
)
def test_evidence_that_cannot_be_read(file: str, content: bytes, run: Path) -> None:
    (run / "evidence" / file).write_bytes(content)
    forge(run, numbers=False)
    report = audit(run)
    assert f"evidence/{file}" in {name for _, name in ids(report)}


def test_a_table_with_other_columns(run: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"seq": [1]}), run / "evidence" / "events.parquet")
    forge(run, numbers=False)
    assert ids(audit(run)) == {("audit.evidence", "evidence/events.parquet")}


def test_a_record_that_is_none(run: Path) -> None:
    (run / "run.json").write_text('{"schema": "fairmark/run/1"}')
    assert ids(audit(run)) == {("audit.record", "run.json")}


def test_a_plugin_dialect_is_said_and_not_redecoded(run: Path) -> None:
    edit(run, lambda record: record["sut"].update(dialect="acme-rpc"))
    forge(run)
    report = audit(run)
    assert report.passed
    assert [(f.id, f.severity) for f in report.findings] == [("audit.plugin-dialect", "warning")]
    assert "decoded by plugin, not re-decoded" in report.findings[0].message


def test_wire_bytes_cannot_be_denied(run: Path) -> None:
    edit(run, lambda record: record.update(requests=None))
    assert ("audit.requests", "run.json") in ids(audit(run))


def test_reference_outputs_that_are_not_the_pinned_ones(run: Path) -> None:
    (run / "evidence" / "references.jsonl").write_text('{"index": 0, "text": "x"}\n')
    forge(run)
    assert ("audit.references", "evidence/references.jsonl") in ids(audit(run))


def test_an_audit_never_loads_what_drives_or_serves() -> None:
    import subprocess
    import sys

    code = (
        "import sys, fairmark.audit.audit;"
        "print([m for m in sys.modules if m.startswith(('fairmark.drive', 'fairmark_', 'datasets'))])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
