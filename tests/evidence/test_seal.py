"""Sealing and recovering live stores that are written by hand."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

from fairmark.errors import EvidenceError
from fairmark.evidence.closing import FACTS, evidence_digests
from fairmark.evidence.control import STOP_REASONS, Control
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.journal import read_journal
from fairmark.evidence.live import LIVE, LivePhase, LiveStore, create_store, open_store
from fairmark.evidence.outcome import outcome
from fairmark.evidence.recover import LOCK, recover
from fairmark.evidence.seal import seal
from fairmark.evidence.store import DETAIL, OUTCOMES, WIRE, LogWriter
from fairmark.evidence.tables import read_table, table, write_table

CHUNKS = [
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"on"}}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"e"},"finish_reason":"stop"}]}\n\n',
    b"data: [DONE]\n\n",
]
BODY = b"".join(CHUNKS)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%bContent-Length: %d\r\n\r\n"
START, EPOCH = 1_000_000, 2_000_000


@pytest.fixture
def store(tmp_path: Path) -> LiveStore:
    (tmp_path / LIVE).mkdir()
    (tmp_path / "evidence").mkdir()
    phases = [
        LivePhase("warmup", np.array([9, 8]), np.array([0, 1, 2]), np.array([0, 500])),
        LivePhase("performance", np.array([3, 1, 2, 3]), np.arange(5), np.array([0, 100, 200, 300])),
    ]
    made = create_store(
        tmp_path / LIVE, phases, workers=2, dialect="openai-chat", stream=True, common={"host": "h"}
    )
    control = made.control()
    control.release(0, START)
    control.release(1, EPOCH)
    return made


def response(extra: bytes = b"") -> bytes:
    return HEAD % (extra, len(BODY)) + BODY


def stamp(store: LiveStore, seq: int, at: int, outcome_name: str, reads: list[bytes] | None = None) -> None:
    """Issue ``seq`` at ``at``, send 10 later, then one read every 10, then the end."""
    stamps = store.columns(write=True).stamps
    stamps.issued[seq], stamps.sent[seq], stamps.connection[seq] = at, at + 10, 1
    if outcome_name:
        stamps.completed[seq] = at + 10 + 10 * len(reads or [b""])
        stamps.outcome[seq] = OUTCOMES.index(outcome_name)


def write_logs(store: LiveStore, reads: dict[int, tuple[int, list[bytes]]], details: dict[int, str]) -> None:
    """The reads of each seq: its worker and its bytes; 20 after issue, then every 10."""
    stamps = store.columns().stamps
    for worker in range(2):
        log = LogWriter(store.log_stem(worker), 4096)
        for seq, (owner, parts) in reads.items():
            for number, part in enumerate(parts):
                if owner == worker:
                    log.append(WIRE, seq, stamps.issued[seq] + 20 + 10 * number, part)
        for seq, text in details.items():
            if worker == store.phases[1].worker_of(2)[seq - 2]:
                log.append(DETAIL, seq, 0, text.encode())
        log.health("gc_pause_ns", EPOCH + 5, 3.0)
        log.close()


def rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return read_table(name, folder / f"{name}.parquet").to_pylist()


def picked(row: dict[str, Any], names: str) -> list[Any]:
    return [row[name] for name in names.split()]


def test_stamps_and_bytes_become_the_contracts_tables(store: LiveStore, tmp_path: Path) -> None:
    whole = response()
    cut = len(whole) - len(BODY) + len(CHUNKS[0])
    parts = [whole[:cut], whole[cut : cut + len(CHUNKS[1])], whole[cut + len(CHUNKS[1]) :]]
    stamp(store, 0, START + 1, "complete", [whole])
    stamp(store, 2, EPOCH + 5, "complete", parts)
    stamp(store, 3, EPOCH + 105, "timeout")
    stamp(store, 4, EPOCH + 205, "")
    write_logs(store, {0: (0, [whole]), 2: (0, parts), 4: (0, parts[:2])}, {3: "why"})
    sealed = seal(store, tmp_path / "evidence")
    assert (sealed.issued, sealed.completed) == (
        {"warmup": 1, "performance": 3},
        {"warmup": 1, "performance": 1},
    )
    assert sealed.never_ended == 1

    queries = {q["seq"]: q for q in rows(tmp_path / "evidence", "queries")}
    assert sorted(queries) == [0, 2, 3, 4]
    assert [queries[s]["scheduled_ns"] for s in (0, 2, 3, 4)] == [START - EPOCH, 0, 100, 200]
    good = queries[2]
    assert (good["phase"], good["query"], good["sample_index"], good["worker"]) == ("performance", 2, 3, 0)
    stamps = "issued_ns sent_ns first_byte_ns first_token_ns last_token_ns completed_ns"
    assert picked(good, stamps) == [5, 15, 25, 35, 45, 45]
    assert (good["failure"], good["finish_reason"], good["connection_new"]) == (None, "stop", False)
    assert good["output_sha256"] == "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
    assert (queries[3]["failure"], queries[3]["failure_detail"]) == ("timeout", "why")
    assert (queries[3]["first_byte_ns"], queries[3]["http_status"]) == (None, None)
    assert picked(queries[4], "failure completed_ns first_token_ns") == ["aborted", None, 235]
    assert [w["worker"] for w in queries.values()] == [0, 0, 1, 0]

    events = [
        picked(e, "arrival_ns read kind") for e in rows(tmp_path / "evidence", "events") if e["seq"] == 2
    ]
    assert events == [
        [25, 0, "role"],
        [35, 1, "content"],
        [45, 2, "content"],
        [45, 2, "end"],
    ]
    assert [o["text"] for o in rows(tmp_path / "evidence", "outputs")] == ["one", "one", "on"]
    assert [h["t_ns"] for h in rows(tmp_path / "evidence", "health")] == [5, 5]
    plan = rows(tmp_path / "evidence", "plan")
    assert [p["scheduled_ns"] for p in plan] == [0, 500, 0, 100, 200, 300]
    workers = json.loads((tmp_path / "evidence" / "workers.json").read_text())
    assert [(w["worker"], w["epoch_ns"], w["host"], w["ceiling"]) for w in workers] == [
        (0, EPOCH, "h", None),
        (1, EPOCH, "h", None),
    ]


def test_cookies_are_masked_in_place(store: LiveStore, tmp_path: Path) -> None:
    secret = b"Set-Cookie: session=s3cret; Path=/\r\n"
    whole = response(secret)
    # The cut goes through the cookie: masking must not depend on where reads end.
    cut = whole.index(b"s3c") + 2
    stamp(store, 2, EPOCH + 5, "complete", [whole[:cut], whole[cut:]])
    write_logs(store, {2: (0, [whole[:cut], whole[cut:]])}, {})
    seal(store, tmp_path / "evidence")
    with (tmp_path / "evidence" / "wire" / "worker-0.zst").open("rb") as file:
        wire = zstandard.ZstdDecompressor().stream_reader(file).read()
    assert len(wire) == len(whole)
    assert b"s3cret" not in wire
    assert wire.endswith(BODY)
    (query,) = rows(tmp_path / "evidence", "queries")
    assert (query["failure"], query["finish_reason"]) == (None, "stop")


@pytest.mark.parametrize(
    ("seen", "failure"),
    [
        ("connect", "connect"),
        ("stalled", "stalled"),
        ("reset", "truncated"),
        ("eof", "truncated"),
        ("aborted", "aborted"),
    ],
)
def test_how_the_driver_saw_the_end_decides_with_the_bytes(
    store: LiveStore, tmp_path: Path, seen: str, failure: str
) -> None:
    parts = [] if seen == "connect" else [response()[:-20]]
    stamp(store, 2, EPOCH + 5, seen, parts)
    write_logs(store, {2: (0, parts)}, {})
    seal(store, tmp_path / "evidence")
    (query,) = rows(tmp_path / "evidence", "queries")
    assert query["failure"] == failure


def test_bytes_that_are_not_http_are_malformed(store: LiveStore, tmp_path: Path) -> None:
    stamp(store, 2, EPOCH + 5, "garbled", [b"SSH-2.0-OpenSSH_9.2\r\n"])
    write_logs(store, {2: (0, [b"SSH-2.0-OpenSSH_9.2\r\n"])}, {})
    seal(store, tmp_path / "evidence")
    (query,) = rows(tmp_path / "evidence", "queries")
    assert query["failure"] == "malformed"


def finish(control: Control, phase: int, *reasons: str) -> None:
    for worker, reason in zip(control.workers, reasons, strict=True):
        if reason:
            worker.finish(phase, reason, EPOCH + 1000)


@pytest.mark.parametrize(
    ("warmup", "performance", "asked", "expected"),
    [
        (("steady", "max_queries"), ("complete", "complete"), None, "complete"),
        (("steady", "steady"), ("complete", "plan_exhausted"), None, "plan_exhausted"),
        (("steady", "steady"), ("max_duration", "drain_timeout"), None, "drain_timeout"),
        (("steady", "steady"), ("complete", ""), None, "worker_died"),
        (("steady", "steady"), ("disk_full", "worker_died"), None, "worker_died"),
        (("steady", "steady"), ("complete", "complete"), "interrupted", "interrupted"),
        (("sut_failed", "steady"), ("", ""), None, "sut_failed"),
    ],
)
def test_the_gravest_reason_is_the_runs(
    store: LiveStore,
    tmp_path: Path,
    warmup: tuple[str, str],
    performance: tuple[str, str],
    asked: str | None,
    expected: str,
) -> None:
    control = store.control()
    finish(control, 0, *warmup)
    finish(control, 1, *performance)
    if asked:
        control.request_stop(1, asked)
    found = outcome(store, seal(store, tmp_path / "evidence"), "because")
    assert (found["stop_reason"], found["detail"]) == (expected, "because")
    assert [p["phase"] for p in found["phases"]] == ["warmup", "performance"]
    assert found["phases"][0]["started_ns"] == START - EPOCH


def test_a_phase_that_never_began_is_not_complete(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    phase = LivePhase("performance", np.array([0]), np.array([0, 1]), None)
    store = create_store(tmp_path, [phase], workers=1, dialect="openai-chat", stream=True)
    found = outcome(store, seal(store, tmp_path / "evidence"), None)
    assert found == {"stop_reason": "worker_died", "detail": None, "phases": []}


def test_the_first_wish_to_stop_is_the_reason_and_levels_only_rise(store: LiveStore) -> None:
    control = store.control()
    control.request_stop(2, "interrupted")
    control.request_stop(1, "worker_died")
    assert (control.stop_level, control.stop_reason) == (2, "interrupted")
    assert STOP_REASONS[0] == ""


def killed_run(store: LiveStore, folder: Path) -> None:
    (folder / LIVE / FACTS).write_text('{"schema": "fairmark/run/1", "run_id": "r"}')
    (folder / LIVE / "environment.json").write_text("{}")
    (folder / LIVE / LOCK).touch()
    write_table(table("samples", {"index": [0], "row": ["{}"]}), folder / "evidence" / "samples.parquet")
    stamp(store, 2, EPOCH + 5, "complete", [response()])
    stamp(store, 3, EPOCH + 105, "")
    write_logs(store, {2: (0, [response()])}, {})


def test_recovering_closes_the_log_with_all_that_was_stamped(store: LiveStore, tmp_path: Path) -> None:
    killed_run(store, tmp_path)
    found = recover(tmp_path)
    assert (found.stop_reason, found.issued, found.completed, found.aborted) == ("terminated", 2, 1, 1)
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["outcome"]["stop_reason"] == "terminated"
    assert "recovered" in record["outcome"]["detail"]
    assert record["evidence"] == evidence_digests(tmp_path / "evidence")
    evidence = load_evidence(tmp_path / "evidence")
    assert [q["failure"] for q in evidence.queries.to_pylist()] == [None, "aborted"]
    assert not (tmp_path / LIVE).exists()
    with pytest.raises(EvidenceError, match="no unfinished run"):
        recover(tmp_path)


def test_the_journal_says_how_many_failures_a_recovery_made_aborted(store: LiveStore, tmp_path: Path) -> None:
    killed_run(store, tmp_path)
    beat = EPOCH + 2_000_000_000
    store.control().beat(beat)
    for seq, completed, name in (
        (3, beat - 600_000_000, "reset"),
        (4, beat + 1, "eof"),
        (5, beat, "connect"),
    ):
        stamp(store, seq, EPOCH + 105, name)
        store.columns(write=True).stamps.completed[seq] = completed
    recover(tmp_path)
    (entry,) = (
        e for e in read_journal(tmp_path / "evidence" / "journal.jsonl") if e["event"] == "recovering"
    )
    assert (entry["made_aborted"], entry["made_aborted_after_ns"]) == (2, 1_500_000_000)
    failures = {q["seq"]: q["failure"] for q in load_evidence(tmp_path / "evidence").queries.to_pylist()}
    assert [seq for seq, failure in failures.items() if failure == "aborted"] == [4, 5]


def test_a_recovery_that_changes_nothing_says_so(store: LiveStore, tmp_path: Path) -> None:
    killed_run(store, tmp_path)
    recover(tmp_path)
    (entry,) = (
        e for e in read_journal(tmp_path / "evidence" / "journal.jsonl") if e["event"] == "recovering"
    )
    assert (entry["made_aborted"], entry["made_aborted_after_ns"]) == (0, None)


def test_a_run_that_is_going_on_is_left_alone(
    store: LiveStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_run(store, tmp_path)
    monkeypatch.setattr("fairmark.evidence.recover._PATIENCE_S", 0.1)
    with (tmp_path / LIVE / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(EvidenceError, match="still going on"):
            recover(tmp_path)
    assert open_store(tmp_path / LIVE).control().stop_level == 0


def test_a_run_that_never_began_has_nothing_to_recover(tmp_path: Path) -> None:
    (tmp_path / LIVE).mkdir()
    with pytest.raises(EvidenceError, match="killed before its first query"):
        recover(tmp_path)


def test_a_damaged_store_is_said_so(store: LiveStore, tmp_path: Path) -> None:
    killed_run(store, tmp_path)
    (tmp_path / LIVE / "performance.sample_index.npy").write_bytes(b"junk")
    with pytest.raises(EvidenceError, match=r"performance\.sample_index\.npy cannot be read"):
        recover(tmp_path)
