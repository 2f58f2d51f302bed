"""A server that breaks, in every way it can: each query ends once, with the right failure."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from fairmark.drive.stop import StopSignal
from fairmark.evidence.evidence import load_evidence
from fairmark.sut.api import Endpoint

pytestmark = pytest.mark.faults

KINDS = {
    "reset-before": "connect",
    "close-before": "connect",
    "reset-after": "truncated",
    "stall-before": "timeout",
    "stall": "stalled",
    "truncate": "truncated",
    "malformed-event": "malformed",
    "malformed-http": "malformed",
    "error": "engine_error",
    "empty": "empty",
    "no-finish": "truncated",
    "status-400": "http_status",
    "status-500": "http_status",
    "status-429": "rejected",
    "status-503": "rejected",
}


@pytest.mark.parametrize(("fault", "failure"), KINDS.items())
def test_every_failure_is_counted_once_and_the_run_goes_on(bench: Any, fault: str, failure: str) -> None:
    sut = bench.sut(faults=(f"{fault}@every=4",))
    overrides = ("run.query_timeout_s=0.3", "warmup.queries=0", "settings.min_query_count=21")
    ran = bench.run("Concurrency", sut, "settings.concurrency=3", *overrides, probe=False)
    queries = ran.queries()
    assert Counter(q["failure"] for q in queries) == {failure: 5, None: 16}
    assert ran.record["outcome"]["stop_reason"] == "complete"
    for query in queries:
        assert query["completed_ns"] >= query["sent_ns"]
        assert query["attempts"] == 1
        assert (query["failure_detail"] is None) == (query["failure"] is None)


@pytest.mark.parametrize(
    "quirk", ["close-after", "until-close", "split", "slow-headers", "crlf", "content-length", "no-done"]
)
def test_unusual_framing_is_no_failure(bench: Any, quirk: str) -> None:
    sut = bench.sut(faults=(quirk,), output_tokens=4)
    ran = bench.run("Concurrency", sut, "settings.concurrency=3")
    assert {q["failure"] for q in ran.queries()} == {None}
    assert {q["output_tokens"] for q in ran.queries()} == {4}


def test_a_query_that_times_out_counts_from_its_issue_to_the_time_out(bench: Any) -> None:
    sut = bench.sut(faults=("stall-before@every=10",))
    ran = bench.run("SingleStream", sut, "run.query_timeout_s=0.25", "warmup.queries=0", probe=False)
    late = [q for q in ran.queries() if q["failure"] == "timeout"]
    assert len(late) == 2
    assert all(q["completed_ns"] - q["issued_ns"] >= 250_000_000 for q in late)


@pytest.mark.parametrize(
    ("kind", "override"),
    [("SingleStream", "settings.min_query_count=4000"), ("Server", "settings.target_qps=100")],
)
@pytest.mark.parametrize("end", ["exit", "refuse"])
def test_a_server_that_is_gone_ends_the_run(bench: Any, kind: str, override: str, end: str) -> None:
    sut = bench.sut(faults=(f"{end}@after=15",))
    ran = bench.run(kind, sut, override, "settings.min_query_count=4000")
    outcome = ran.record["outcome"]
    assert outcome["stop_reason"] == "sut_failed"
    failures = Counter(q["failure"] for q in ran.rows("queries"))
    assert failures[None] >= 10
    assert set(failures) <= {None, "connect", "truncated"}
    assert failures["connect"] >= 20
    assert sum(failures.values()) < 3000
    details = {q["failure_detail"] for q in ran.rows("queries") if q["failure"] == "connect"}
    assert any("refused" in detail for detail in details)


def test_the_drain_has_an_end(bench: Any) -> None:
    sut = bench.sut(faults=("stall@after=10",))
    overrides = ("run.query_timeout_s=500", "run.drain_timeout_s=0.3", "warmup.queries=0")
    ran = bench.run("Server", sut, "settings.target_qps=200", *overrides)
    assert ran.record["outcome"]["stop_reason"] == "drain_timeout"
    failures = Counter(q["failure"] for q in ran.queries())
    assert set(failures) == {None, "aborted"}
    assert sum(failures.values()) == 20


def test_max_duration_ends_a_run_of_a_stalled_server(bench: Any) -> None:
    sut = bench.sut(faults=("stall@after=10",))
    overrides = ("run.query_timeout_s=0.2", "run.max_duration_s=1", "settings.min_query_count=500")
    ran = bench.run("SingleStream", sut, *overrides)
    assert ran.record["outcome"]["stop_reason"] == "max_duration"


def test_a_stop_before_the_first_query_closes_an_empty_log(bench: Any) -> None:
    stop = StopSignal()
    stop.request("interrupted")
    ran = bench.run("Server", bench.sut(), "settings.target_qps=10", stop=stop)
    assert ran.record["outcome"] == {"stop_reason": "interrupted", "detail": None, "phases": []}
    assert ran.rows("queries") == []


class IdleCloser:
    """Answers, and closes every connection that is idle for 20 ms, without saying so before."""

    BODY = (
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],'
        b'"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
    )
    HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n"

    def __init__(self) -> None:
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        patience: float | None = None
        try:
            while True:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), patience)
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
                writer.write(self.HEAD % len(self.BODY) + self.BODY)
                patience = 0.02
        except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def idle_closer() -> Iterator[IdleCloser]:
    server = IdleCloser()
    yield server
    server.close()


def test_connections_closed_between_queries_are_reopened(bench: Any, idle_closer: IdleCloser) -> None:
    sut = bench.sut()
    sut.endpoints = lambda: [Endpoint("127.0.0.1", idle_closer.port, "/")]
    ran = bench.run("Concurrency", sut, "settings.concurrency=2", "arrivals.think_time_s=0.05")
    assert {q["failure"] for q in ran.queries()} == {None}
    (worker,) = load_evidence(ran.folder / "evidence").workers
    assert worker["connections_opened"] > 2
