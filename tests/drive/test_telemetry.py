"""The server's own gauges beside a run: read from real pages, kept, and never in the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.drive import telemetry
from fairmark.drive.telemetry import NAMES, Telemetry, read_gauges
from fairmark.evidence.gauges import GaugeLog, gauge_columns
from fairmark.evidence.journal import read_journal
from fairmark.sut.api import Endpoint

DATA = Path(__file__).parent / "data"
BUSY = 'vllm:num_requests_running{model_name="a} b"} 3.0\n'


@contextmanager
def served(answer: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[tuple[Endpoint, list[str]]]:
    """A server whose n-th request (from 1) is answered by ``answer``, and the paths that it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self, len(asked))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Endpoint("127.0.0.1", server.server_address[1], "/v1/completions"), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page(handler: BaseHTTPRequestHandler, body: str, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body.encode())


def looks(endpoint: Endpoint, folder: Path) -> Telemetry:
    return Telemetry([endpoint], folder)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "bench" not in request.fixturenames:
        monkeypatch.setattr(telemetry, "_INTERVAL_S", 0.01)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (
            "metrics-vllm-0.32.0.txt",
            {
                "requests_running": 8.0,
                "requests_waiting": 0.0,
                "kv_cache_usage": 0.02203856749311295,
                "preemptions": 0.0,
                "input_tokens": 1172.0,
                "prefix_cache_hit_tokens": 0.0,
                "output_tokens": 529.0,
            },
        ),
        (
            "metrics-llamacpp.txt",
            {
                "requests_running": 4.0,
                "requests_waiting": 0.0,
                "input_tokens": 53.0 + 55.0,
                "prefix_cache_hit_tokens": 55.0,
                "output_tokens": 40.0,
            },
        ),
    ],
)
def test_pages_of_busy_servers(file: str, expected: dict[str, float]) -> None:
    assert read_gauges((DATA / file).read_text()) == expected


def test_exemplars_and_labels_are_no_values() -> None:
    name = "vllm:generation_tokens_total"
    lines = (
        f'{name} 2 # {{trace_id="a"}} 100 1700000000',
        f'{name}{{a="b"}} 3 # {{trace_id="}} 7"}} 200',
        f'{name}{{a="x # }} 9",b="\\"}} 8"}} 4 1700000000 # {{}} 400',
        f'{name}{{a="line\u2028{name} 500"}}\t8',
        f'{name}{{a="never ends}} 600',
        f"# {name} 700",
    )
    assert read_gauges("\r\n".join(lines)) == {"output_tokens": 17.0}


def test_engines_behind_one_page_add_up_but_for_cache_usage() -> None:
    both = "".join(
        f'vllm:{name}{{engine="{engine}"}} {value}\n'
        for engine, value in enumerate((0.25, 0.5))
        for name in ("num_requests_running", "kv_cache_usage_perc")
    )
    assert read_gauges(both) == {"requests_running": 0.75, "kv_cache_usage": 0.5}


@given(st.text() | st.builds("{}{}".format, st.sampled_from([*NAMES]), st.text()))
def test_no_page_breaks_the_reader(text: str) -> None:
    assert set(read_gauges(text)) <= {ours for names in NAMES.values() for ours in names}


@given(st.sampled_from([*NAMES]), st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_a_figure_is_read_whatever_its_labels(name: str, label: str, value: float) -> None:
    quoted = label.encode("unicode_escape").decode().replace('"', '\\"')
    found = read_gauges(f'# TYPE {name} gauge\n{name}{{a="{quoted}"}} {value!r} 1700000000\n')
    assert found == dict.fromkeys(NAMES[name], value)


def test_figures_are_kept_with_their_source_and_time(tmp_path: Path) -> None:
    with served(lambda handler, _: page(handler, BUSY)) as (endpoint, asked):
        same_server = Endpoint(endpoint.host, endpoint.port, "/v1/chat/completions")
        with Telemetry([endpoint, same_server], tmp_path) as looking:
            while len(asked) < 3:
                looking._ended.wait(0.01)
    assert set(asked) == {"/metrics"}
    (summary,) = looking.summary
    kept, _ = gauge_columns(tmp_path, 0)
    assert summary["reads"] == len(kept["t_ns"]) >= 2
    assert (summary["failures"], summary["detail"]) == (0, None)
    assert set(zip(kept["source"], kept["name"], kept["value"], strict=True)) == {
        ("server-0", "requests_running", 3.0)
    }
    assert kept["t_ns"] == sorted(kept["t_ns"])


@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [(404, "", "HTTP 404"), (200, "up 1\n", "no known figure at /metrics")],
)
def test_a_server_without_them_is_asked_once(tmp_path: Path, status: int, body: str, detail: str) -> None:
    answer = partial(page, body=body, status=status)
    with (
        served(lambda handler, _: answer(handler)) as (endpoint, asked),
        looks(endpoint, tmp_path) as looking,
    ):
        looking._thread.join()
    assert asked == ["/metrics"]
    assert (looking.summary[0]["reads"], looking.summary[0]["detail"]) == (0, detail)
    assert gauge_columns(tmp_path, 0)[0]["t_ns"] == []


def test_a_server_that_fails_now_and_then_is_asked_again(tmp_path: Path) -> None:
    def every_second(handler: BaseHTTPRequestHandler, number: int) -> None:
        page(handler, BUSY if number % 2 else "busy", 200 if number % 2 else 503)

    with served(every_second) as (endpoint, asked), looks(endpoint, tmp_path) as looking:
        while len(asked) < 4:
            looking._ended.wait(0.01)
    (summary,) = looking.summary
    assert summary["reads"] >= 2
    assert summary["failures"] >= 1
    assert summary["detail"] == "HTTP 503"


def test_a_page_without_end_does_not_hold_up_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_TIMEOUT_S", 0.2)
    released = threading.Event()

    def dribble(handler: BaseHTTPRequestHandler, _: int) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not released.wait(0.05):
            handler.wfile.write(b"#")

    with served(dribble) as (endpoint, asked):
        with looks(endpoint, tmp_path) as looking:
            while not asked:
                looking._ended.wait(0.01)
        still_reading, still_open = looking._thread.is_alive(), not looking._log._file.closed
        released.set()
        looking._thread.join()
    assert still_reading
    assert still_open
    assert looking._log._file.closed
    assert gauge_columns(tmp_path, 0)[0]["t_ns"] == []


def test_a_page_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_MAX_BYTES", len(BUSY))
    with (
        served(lambda handler, _: page(handler, BUSY + "#")) as (endpoint, _),
        looks(endpoint, tmp_path) as looking,
    ):
        looking._thread.join()
    (summary,) = looking.summary
    assert (summary["reads"], summary["failures"]) == (0, 1)
    assert summary["detail"] == f"a page of {len(BUSY)} bytes or more"
    assert gauge_columns(tmp_path, 0)[0]["value"] == []


def test_what_nobody_foresaw_ends_the_looking_and_is_named_by_its_type(tmp_path: Path) -> None:
    too_many = 'vllm:num_requests_running{engine="0"} 1e308\nvllm:num_requests_running{engine="1"} 1e308\n'
    with (
        served(lambda handler, number: page(handler, BUSY if number == 1 else too_many)) as (endpoint, asked),
        looks(endpoint, tmp_path) as looking,
    ):
        looking._thread.join()
    assert looking.summary == [{"source": "server-0", "reads": 1, "failures": 1, "detail": "ValueError"}]
    assert len(asked) == 2
    assert looking._log._file.closed
    assert gauge_columns(tmp_path, 0)[0]["value"] == [3.0]


def test_a_full_disk_ends_the_looking_and_keeps_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = GaugeLog.append

    def full(log: GaugeLog, source: str, t_ns: int, values: Any) -> None:
        write(log, source, t_ns, values)
        log._file.write(b'["server-0", 12')
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GaugeLog, "append", full)
    with (
        served(lambda handler, _: page(handler, BUSY)) as (endpoint, _),
        looks(endpoint, tmp_path) as looking,
    ):
        looking._thread.join()
    assert "No space left" in str(looking.summary[0]["detail"])
    assert gauge_columns(tmp_path, 0)[0]["value"] == [3.0]


class Filling:
    """A disk with room for so many bytes, each write of which may be a part of what was asked."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self.room = file, room

    def write(self, data: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = self._file.write(data[: min(self.room, 7)])
        self.room -= taken
        return taken

    def truncate(self, size: int) -> None:
        self._file.truncate(size)


def test_a_write_that_was_short_is_finished_or_undone(tmp_path: Path) -> None:
    log = GaugeLog(tmp_path)
    file, log._file = log._file, Filling(log._file, 60)
    log.append("server-0", 1, {"requests_running": 1.0})
    with pytest.raises(OSError, match="No space left"):
        log.append("server-0", 2, {"requests_running": 2.0})
    log._file.room = 1000
    log.append("server-0", 3, {"requests_running": 3.0})
    file.close()
    kept, unreadable = gauge_columns(tmp_path, 1)
    assert (kept["t_ns"], kept["value"], unreadable) == ([0, 2], [1.0, 3.0], 0)


@pytest.mark.parametrize(
    "line",
    [b'["server-0", 1["server-0", 2, {}]', b"\0\0", b"\xff", b"7", b"[1, 2, 3]", b'["s", 1, {"a": "b"}]'],
)
def test_a_line_that_cannot_be_read_is_counted_and_the_rest_kept(tmp_path: Path, line: bytes) -> None:
    log = GaugeLog(tmp_path)
    log.append("server-0", 1, {"requests_running": 1.0})
    log._file.write(line + b"\n")
    log.append("server-0", 3, {"requests_running": 3.0})
    log.close()
    kept, unreadable = gauge_columns(tmp_path, 0)
    assert (kept["value"], unreadable) == ([1.0, 3.0], 1)


def test_a_run_keeps_the_queue_of_its_server(bench: Any) -> None:
    sut = bench.sut(ttft_ms=100, servers=2)
    ran = bench.run("Offline", sut, "run.min_query_count=48")
    rows = ran.rows("telemetry")
    running = [row["value"] for row in rows if row["name"] == "requests_running"]
    waiting = [row["value"] for row in rows if row["name"] == "requests_waiting"]
    assert max(running) == 2
    assert max(waiting) > 2
    (entry,) = (
        e for e in read_journal(ran.folder / "evidence" / "journal.jsonl") if e["event"] == "telemetry"
    )
    assert entry["servers"] == [{"source": "server-0", "reads": len(running), "failures": 0, "detail": None}]


def test_a_run_with_a_look_that_cannot_be_read_says_so(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write = GaugeLog.append

    def garble(log: GaugeLog, source: str, t_ns: int, values: Any) -> None:
        write(log, source, t_ns, values)
        log._file.write(b'["server-0", 1\n')

    monkeypatch.setattr(GaugeLog, "append", garble)
    ran = bench.run("SingleStream", bench.sut(ttft_ms=10))
    journal = read_journal(ran.folder / "evidence" / "journal.jsonl")
    found = {entry["event"]: entry for entry in journal}
    assert found["unreadable"]["telemetry"] == found["telemetry"]["servers"][0]["reads"] >= 1
    assert len({row["t_ns"] for row in ran.rows("telemetry")}) == found["unreadable"]["telemetry"]
