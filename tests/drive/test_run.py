"""Whole runs over real sockets against a server whose own account of them is known."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import zstandard

from fairmark.drive.job import Progress
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.errors import InputError, SutError
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.journal import read_journal
from fairmark.evidence.tables import TABLES, read_table

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "run.schema.json").read_text())


def arrivals(path: Path) -> list[dict[str, Any]]:
    """The server's account, without the probe."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda row: row["arrival_ns"])[1:]


def planned(ran: Any, phase: str = "performance") -> list[tuple[int, int, int | None]]:
    rows = ran.rows("plan")
    return [(r["seq"], r["sample_index"], r["scheduled_ns"]) for r in rows if r["phase"] == phase]


def delivered(ran: Any, phase: str = "performance") -> list[tuple[int, int, int | None]]:
    return [(q["seq"], q["sample_index"], q["scheduled_ns"]) for q in ran.queries(phase)]


def test_server_run_agrees_with_the_servers_own_account(bench: Any) -> None:
    log = bench.tmp_path / "arrivals.jsonl"
    sut = bench.sut(ttft_ms=4, tpot_ms=0.5, arrivals=log)
    ran = bench.run("Server", sut, "settings.target_qps=100")
    queries, seen = ran.rows("queries"), arrivals(log)
    epoch = json.loads((ran.folder / "evidence" / "workers.json").read_text())[0]["epoch_ns"]
    assert len(seen) == len(queries)
    assert ran.record["outcome"]["stop_reason"] == "complete"
    assert delivered(ran) == planned(ran)
    by_issue = sorted(queries, key=lambda q: q["issued_ns"])
    for query, arrival in zip(by_issue, seen, strict=True):
        assert query["issued_ns"] >= query["scheduled_ns"]
        assert query["sent_ns"] + epoch <= arrival["received_ns"]
        assert arrival["first_token_ns"] <= query["first_token_ns"] + epoch
        assert query["first_byte_ns"] <= query["first_token_ns"] <= query["last_token_ns"]
        assert query["last_token_ns"] <= query["completed_ns"]
        assert (query["output_tokens"], query["output_token_source"]) == (arrival["output_tokens"], "usage")
        assert (query["failure"], query["http_status"], query["attempts"]) == (None, 200, 1)


def test_single_stream_sends_the_next_query_after_the_last_one_ended(bench: Any) -> None:
    ran = bench.run("SingleStream", bench.sut(ttft_ms=1))
    queries = ran.queries()
    assert len(queries) == 20
    assert all(q["scheduled_ns"] is None and not q["connection_new"] for q in queries)
    # Property 21: what passes between a completion and the next issue is in no latency.
    for before, after in pairwise(queries):
        assert after["issued_ns"] >= before["completed_ns"]


def test_offline_is_due_at_the_start_and_stays_within_its_limit(bench: Any) -> None:
    log = bench.tmp_path / "arrivals.jsonl"
    ran = bench.run("Offline", bench.sut(ttft_ms=3, arrivals=log, max_in_flight=5))
    queries = ran.queries()
    assert len(queries) == 20
    assert {q["scheduled_ns"] for q in queries} == {0}
    assert len({q["query"] for q in queries}) == 1
    assert max(a["in_flight"] for a in arrivals(log)) <= 5


def test_multi_stream_sends_whole_queries(bench: Any) -> None:
    ran = bench.run("MultiStream", bench.sut(ttft_ms=1))
    queries = ran.queries()
    assert Counter(q["query"] for q in queries) == dict.fromkeys(range(32, 52), 4)
    ends: dict[int, int] = {}
    for q in queries:
        ends[q["query"]] = max(ends.get(q["query"], 0), q["completed_ns"])
    assert all(q["issued_ns"] >= ends[q["query"] - 1] for q in queries if q["query"] - 1 in ends)


def test_concurrency_keeps_its_users_and_lets_them_think(bench: Any) -> None:
    log = bench.tmp_path / "arrivals.jsonl"
    overrides = ("settings.concurrency=3", "arrivals.think_time_s=0.005")
    ran = bench.run("Concurrency", bench.sut(ttft_ms=2, arrivals=log), *overrides)
    assert max(a["in_flight"] for a in arrivals(log)) <= 3
    ends = sorted(q["completed_ns"] for q in ran.queries())
    later = sorted(q["issued_ns"] for q in ran.queries())[3:]
    assert all(issued >= end + 5_000_000 for issued, end in zip(later, ends, strict=False))


def test_the_same_seeds_send_the_same_samples_at_the_same_scheduled_times(bench: Any) -> None:
    sut = bench.sut()
    first, second = (bench.run("Server", sut, "settings.target_qps=200") for _ in range(2))
    assert delivered(first) == delivered(second)
    assert first.record["plan"] == second.record["plan"]
    assert first.record["requests"] == second.record["requests"]
    assert [r["attempts"] for r in (first.record, second.record)] == [1, 2]


@pytest.mark.parametrize(
    ("kind", "override"),
    [
        ("Server", "settings.target_qps=200"),
        ("Offline", "settings.target_qps=1"),
        ("Concurrency", "settings.concurrency=6"),
    ],
)
def test_k_workers_deliver_the_plan_of_one(bench: Any, kind: str, override: str) -> None:
    sut = bench.sut(max_in_flight=6)
    one, three = (bench.run(kind, sut, override, f"settings.workers={k}") for k in (1, 3))
    assert planned(one) == planned(three) == delivered(one) == delivered(three)
    assert [q["worker"] for q in three.queries()] == [n % 3 for n in range(20)]
    assert one.record["requests"] == three.record["requests"]
    assert one.record["scenario_digest"] == three.record["scenario_digest"]
    assert [w["worker"] for w in load_evidence(three.folder / "evidence").workers] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kind", "override", "slots"),
    [
        ("SingleStream", "run.min_query_count=20", 1),
        ("MultiStream", "run.min_query_count=20", 1),
        ("Concurrency", "settings.concurrency=2", 2),
        ("Offline", "run.min_query_count=20", 2),
    ],
)
def test_workers_cannot_share_what_is_less_than_they_are(
    bench: Any, kind: str, override: str, slots: int
) -> None:
    with pytest.raises(InputError, match=rf"settings\.workers.*\(got 3\); accepted: 1( to {slots})?$"):
        bench.run(kind, bench.sut(max_in_flight=2), "settings.workers=3", override)


def test_submission_mode_runs_accuracy_then_warmup_then_performance(bench: Any) -> None:
    ran = bench.run("Offline", bench.sut(), mode="submission")
    phases = ran.record["outcome"]["phases"]
    assert [p["phase"] for p in phases] == ["accuracy", "warmup", "performance"]
    assert sorted(q["sample_index"] for q in ran.queries("accuracy")) == list(range(64))
    assert phases[0]["started_ns"] < phases[1]["started_ns"] < phases[2]["started_ns"] == 0
    assert all(a["ended_ns"] < b["started_ns"] for a, b in pairwise(phases))
    assert all(q["completed_ns"] < 0 for q in ran.queries("accuracy") + ran.queries("warmup"))


def test_accuracy_mode_counts_from_its_own_epoch(bench: Any) -> None:
    ran = bench.run("SingleStream", bench.sut(), mode="accuracy")
    assert [p["phase"] for p in ran.record["outcome"]["phases"]] == ["accuracy"]
    assert len(ran.queries("accuracy")) == 64
    assert min(q["issued_ns"] for q in ran.queries("accuracy")) >= 0


def test_warmup_uses_rows_outside_the_performance_set_and_is_drained_first(bench: Any) -> None:
    ran = bench.run("Server", bench.sut(ttft_ms=1), "settings.target_qps=100")
    warmup = ran.queries("warmup")
    assert len(warmup) >= 4
    assert {q["sample_index"] for q in warmup} <= set(range(48, 64))
    assert all(q["completed_ns"] < 0 for q in warmup)


def test_every_table_keeps_the_contract_and_the_record_its_schema(bench: Any) -> None:
    ran = bench.run("Offline", bench.sut())
    for name in TABLES:
        read_table(name, ran.folder / "evidence" / f"{name}.parquet")
    jsonschema.validate(ran.record, SCHEMA)
    assert (ran.folder / "scenario.toml").read_bytes().startswith(b'\nschema = "fairmark/scenario/1"')
    assert not (ran.folder / "live").exists()


def test_every_evidence_file_is_in_the_record_and_the_journal(bench: Any) -> None:
    ran = bench.run("Offline", bench.sut())
    evidence = ran.folder / "evidence"
    found = {p.relative_to(evidence).as_posix(): p for p in evidence.rglob("*") if p.is_file()}
    assert set(ran.record["evidence"]) == set(found)
    for name, path in found.items():
        content = path.read_bytes()
        assert ran.record["evidence"][name] == {
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }
    journal = read_journal(evidence / "journal.jsonl")
    assert [e["event"] for e in journal] == ["started", "phase", "phase", "driven", "telemetry", "sealed"]
    assert journal[0]["run_id"] == ran.record["run_id"]
    assert set(journal[-1]["evidence"]) == set(found) - {"journal.jsonl"}


def test_raw_reads_are_kept_and_are_whole_responses(bench: Any) -> None:
    ran = bench.run("SingleStream", bench.sut(tpot_ms=1))
    with (ran.folder / "evidence" / "wire" / "worker-0.zst").open("rb") as file:
        wire = zstandard.ZstdDecompressor().stream_reader(file).read()
    reads = ran.rows("reads")
    assert sum(r["size"] for r in reads) == len(wire)
    for query in ran.queries():
        mine = [r for r in reads if r["seq"] == query["seq"]]
        body = b"".join(wire[r["offset"] : r["offset"] + r["size"]] for r in mine)
        assert body.startswith(b"HTTP/1.1 200 OK\r\n")
        assert body.endswith(b"0\r\n\r\n")
        assert mine[0]["arrival_ns"] == query["first_byte_ns"]
        assert mine[-1]["arrival_ns"] == query["completed_ns"]
        assert len({r["arrival_ns"] for r in mine}) > 5


def test_without_a_stream_there_is_no_first_token(bench: Any) -> None:
    ran = bench.run("SingleStream", bench.sut(stream=False))
    for query in ran.queries():
        assert (query["failure"], query["first_token_ns"], query["last_token_ns"]) == (None, None, None)
        assert query["completed_ns"] > query["sent_ns"]
        assert query["output_tokens"] == 16


@pytest.mark.parametrize("pacer", ["timerfd+spin", "sleep+spin"])
def test_the_send_lag_and_the_pacer_are_evidence(bench: Any, pacer: str) -> None:
    ran = bench.run("Server", bench.sut(), "settings.target_qps=300", pacer=pacer)
    lag = [q["sent_ns"] - q["scheduled_ns"] for q in ran.queries()]
    assert min(lag) >= 0
    assert np.quantile(lag, 0.99) > 0
    assert load_evidence(ran.folder / "evidence").workers[0]["pacer"] == pacer


def test_the_open_loop_is_never_capped(bench: Any) -> None:
    log = bench.tmp_path / "arrivals.jsonl"
    ran = bench.run(
        "Server",
        bench.sut(ttft_ms=400, arrivals=log),
        "settings.target_qps=400",
        "settings.min_query_count=60",
    )
    # More than the few connections it starts with: the rest are opened when they are needed.
    assert max(a["in_flight"] for a in arrivals(log)) > 40
    assert sum(q["connection_new"] for q in ran.queries()) > 20
    assert {q["failure"] for q in ran.queries()} == {None}


def test_property_20_latency_counts_from_the_schedule_when_the_system_falls_behind(bench: Any) -> None:
    sut = bench.sut(ttft_ms=20, servers=1)
    ran = bench.run("Server", sut, "settings.target_qps=200", "warmup.queries=0")
    latency = [q["completed_ns"] - q["scheduled_ns"] for q in ran.queries()]
    # Twenty queries of 20 ms each come within about 100 ms: the last one waits for those before it.
    assert latency[-1] > 10 * 20_000_000
    assert latency[-1] > 3 * latency[0]


def test_property_54_the_sut_is_flushed_once_per_phase_after_the_last_issue(bench: Any) -> None:
    sut, issued = bench.sut(ttft_ms=20), []
    progress: list[Progress] = []
    sut.flush = lambda: issued.append(progress[-1])
    job = bench.job("Server", sut, "settings.target_qps=100")
    execute(job, progress=progress.append, stop=StopSignal())
    assert len(issued) == 2


def test_queries_are_spread_over_the_endpoints_in_turn(bench: Any) -> None:
    logs = [bench.tmp_path / f"arrivals{n}.jsonl" for n in range(2)]
    first, second = (bench.sut(arrivals=log) for log in logs)
    both = [*first.endpoints(), *second.endpoints()]
    first.endpoints = lambda: both
    ran = bench.run("Concurrency", first, "settings.concurrency=4", "warmup.queries=0")
    assert {q["failure"] for q in ran.queries()} == {None}
    assert [len(arrivals(log)) for log in logs] == [10, 10]


def test_a_worker_stays_off_the_cores_of_the_sut(bench: Any) -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        pytest.skip("needs two cores")
    sut = bench.sut()
    sut.cores = lambda: usable[1:]
    ran = bench.run("Offline", sut)
    assert load_evidence(ran.folder / "evidence").workers[0]["cores"] == usable[:1]


def test_without_uvloop_the_standard_loop_drives(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = bench.tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "uvloop.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", str(blocked))
    ran = bench.run("Server", bench.sut(), "settings.target_qps=200")
    assert load_evidence(ran.folder / "evidence").workers[0]["loop"] == "asyncio"
    assert {q["failure"] for q in ran.queries()} == {None}


def test_secrets_are_sent_and_kept_nowhere(bench: Any) -> None:
    sut = bench.sut()
    (endpoint,) = sut.endpoints()
    sut.endpoints = lambda: [replace(endpoint, secret_headers={"Authorization": "Bearer s3cr3t-0"})]
    seen: list[bytes] = []

    def look(progress: Progress) -> None:
        if progress.stage == "performance":
            seen.extend(p.read_bytes() for p in (bench.tmp_path / "run1").rglob("*") if p.is_file())

    execute(bench.job("Server", sut, "settings.target_qps=200"), progress=look, stop=StopSignal())
    seen.extend(p.read_bytes() for p in (bench.tmp_path / "run1").rglob("*") if p.is_file())
    assert len(seen) > 20
    assert not any(b"s3cr3t-0" in content for content in seen)


LOADED = """
import sys
import fairmark.drive.worker
print(*(m for m in ("pyarrow", "scipy", "datasets", "pandas", "jsonschema", "click") if m in sys.modules))
"""


def test_the_process_that_drives_imports_nothing_heavy() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True)
    assert ended.stdout.split() == []


def test_a_calibrated_run_carries_each_workers_ceiling(bench: Any) -> None:
    sut = bench.sut()
    runs = [bench.run("Offline", sut, "settings.workers=2", calibration=how) for how in ("cached", "cached")]
    first, second = ([w["ceiling"] for w in load_evidence(r.folder / "evidence").workers] for r in runs)
    assert first == second
    assert len(first) == 2
    for ceiling in first:
        assert ceiling["qps"] > 0
        assert 0 <= ceiling["lag_p50_ns"] <= ceiling["lag_p99_ns"]


def test_health_is_sampled(bench: Any) -> None:
    ran = bench.run("Server", bench.sut(), "settings.target_qps=40", "settings.min_query_count=60")
    names = {row["name"] for row in ran.rows("health")}
    assert {"cpu_fraction", "steal_fraction", "resident_bytes", "open_connections", "in_flight"} <= names


def test_progress_goes_through_all_stages(bench: Any) -> None:
    seen: list[Progress] = []
    job = bench.job("Offline", bench.sut())
    execute(job, progress=seen.append, stop=StopSignal())
    stages = list(dict.fromkeys(p.stage for p in seen))
    assert stages == ["probe", "calibrate", "start", "warmup", "performance", "seal"]
    last = [p for p in seen if p.stage == "performance"][-1]
    assert (last.issued, last.completed, last.failed, last.planned) == (20, 20, 0, 20)


def test_a_folder_with_a_run_is_never_overwritten(bench: Any) -> None:
    ran = bench.run("Offline", bench.sut())
    before = (ran.folder / "run.json").read_bytes()
    with pytest.raises(InputError, match="already holds a run"):
        bench.run("Offline", bench.suts[0], out=ran.folder)
    assert (ran.folder / "run.json").read_bytes() == before


def test_a_dead_endpoint_is_found_before_the_run(bench: Any) -> None:
    sut = bench.sut()
    bench.closers[0]()
    with pytest.raises(SutError, match=r"http://127\.0\.0\.1:\d+/v1/chat/completions: .*refused"):
        bench.run("Offline", sut)
    assert not (bench.tmp_path / "run1").exists()
    assert not (bench.tmp_path / "attempts.jsonl").exists()


def test_the_sut_is_closed_once_and_before_its_logs_are_sealed(bench: Any) -> None:
    sut = bench.sut()
    job = bench.job("Offline", sut)
    closed: list[bool] = []

    def close() -> None:
        closed.append((job.out / "run.json").exists())
        (job.out / "evidence" / "logs" / "sut.log").write_text("last words")

    sut.close = close
    execute(job, progress=lambda _: None, stop=StopSignal())
    assert closed == [False]
    record = json.loads((job.out / "run.json").read_text())
    assert record["evidence"]["logs/sut.log"]["sha256"] == hashlib.sha256(b"last words").hexdigest()


def test_a_sut_that_fails_to_close_does_not_cost_the_evidence(bench: Any) -> None:
    def fail() -> None:
        raise RuntimeError("cannot close")

    sut = bench.sut()
    sut.close = fail
    job = bench.job("Offline", sut)
    with pytest.raises(RuntimeError, match="cannot close"):
        execute(job, progress=lambda _: None, stop=StopSignal())
    assert json.loads((job.out / "run.json").read_text())["outcome"]["stop_reason"] == "complete"


def test_the_sut_is_closed_once_when_the_run_is_refused(bench: Any) -> None:
    sut, closed = bench.sut(max_in_flight=2), []
    sut.close = lambda: closed.append(1)
    with pytest.raises(InputError):
        bench.run("Offline", sut, "settings.workers=3")
    assert closed == [1]


def test_too_few_descriptors_are_found_before_the_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    with pytest.raises(InputError, match=r"ulimit -n: 200 connections per worker .*accepted: at least 264"):
        bench.run("Concurrency", bench.sut(), "settings.concurrency=200", "settings.min_query_count=200")


@pytest.mark.parametrize("kind", ["SingleStream", "Offline", "Server"])
def test_a_server_that_closes_connections_without_saying_so_loses_no_query(bench: Any, kind: str) -> None:
    sut = bench.sut(faults=("close-silently",), max_in_flight=4)
    rate = ["settings.target_qps=200"] if kind == "Server" else []
    ran = bench.run(kind, sut, *rate)
    assert ran.record["sut"]["observed"]["endpoints"][0]["keeps_connection"] is False
    queries = ran.rows("queries")
    assert [q["failure"] for q in queries] == [None] * len(queries)
    # One is opened ahead; more would be idle, and cost such a server a thread each.
    (worker,) = load_evidence(ran.folder / "evidence").workers
    assert len(queries) <= worker["connections_opened"] <= len(queries) + 3


def test_a_server_that_keeps_connections_is_seen_to(bench: Any) -> None:
    ran = bench.run("SingleStream", bench.sut())
    assert ran.record["sut"]["observed"]["endpoints"][0]["keeps_connection"] is True
    assert not any(q["connection_new"] for q in ran.queries())


def test_a_system_that_fails_to_flush_ends_its_run_with_the_evidence_kept(bench: Any) -> None:
    sut = bench.sut()

    def flush() -> None:
        raise RuntimeError("no such batch")

    sut.flush = flush
    ran = bench.run("Server", sut, "settings.target_qps=200")
    assert ran.record["outcome"]["stop_reason"] == "sut_failed"
    assert "RuntimeError: no such batch" in ran.record["outcome"]["detail"]
    assert all(q["failure"] is None for q in ran.rows("queries"))
