"""The simulated server tells the truth: its answers, its times, its queue and its account."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairmark.wire.dialects import dialect
from fairmark_sim.answers import Answers, prompt_text, read_answers
from fairmark_sim.server import main
from fairmark_sim.service import ServiceModel, Slots


def text_of(answer: Any, *, chat: bool = True) -> str:
    name = "openai-chat" if chat else "openai-completions"
    response = dialect(name).decode(answer.reads, closed=answer.ending == "closed")
    assert response.failure is None, response.failure_detail
    return response.text


def test_streamed_and_whole_answers_of_both_apis_agree(serve: Callable[..., Any]) -> None:
    with serve("--output-tokens", "9") as server:
        texts = {
            text_of(server.ask("why?", chat=chat, stream=stream), chat=chat)
            for chat in (True, False)
            for stream in (True, False)
        }
        assert texts == {"".join(Answers(9).tokens("why?"))}


def test_several_requests_on_one_connection_even_when_sent_at_once(serve: Callable[..., Any]) -> None:
    with serve("--output-tokens", "2", "--ttft-ms", "5") as server, server.connect() as sock:
        body = json.dumps({"prompt": "a", "stream": False}).encode()
        one = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        health = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
        sock.sendall(one + health + one + one[:20])
        sock.sendall(one[20:])
        seen = b""
        while seen.count(b'"object":"text_completion"') < 3:
            seen += sock.recv(65536)
        rows = server.arrivals()
    assert seen.count(b'"status":"ok"') == 1
    assert seen.index(b"text_completion") < seen.index(b'"ok"') < seen.rindex(b"text_completion")
    assert [row["request"] for row in rows] == [1, 2, 3]
    assert {row["connection"] for row in rows} == {1}
    assert all(a["end_ns"] <= b["start_ns"] for a, b in pairwise(rows))


def test_the_account_is_in_order_and_no_token_leaves_early(serve: Callable[..., Any]) -> None:
    with serve("--ttft-ms", "20", "--tpot-ms", "5", "--output-tokens", "4") as server:
        for prompt in ("a", "b"):
            server.ask(prompt, stream=True)
        rows = server.arrivals()
    assert len(rows) == 2
    for row in rows:
        stamps = [row[k] for k in ("arrival_ns", "received_ns", "start_ns", "first_token_ns", "end_ns")]
        assert stamps == sorted(stamps)
        # A write may be early by the loop's own slack of 50 us, never by more.
        assert row["first_token_ns"] - row["start_ns"] >= 20_000_000 - 50_000
        assert row["end_ns"] - row["start_ns"] >= 35_000_000 - 50_000
        assert (row["output_tokens"], row["status"], row["outcome"]) == (4, 200, "sent")


def test_a_limited_server_queues_first_come_first_served(serve: Callable[..., Any]) -> None:
    with serve("--servers", "2", "--ttft-ms", "30", "--output-tokens", "1") as server:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda i: server.ask(str(i)), range(6)))
        stats = server.get("/sim/stats")[1]
        rows = sorted(server.arrivals(), key=lambda row: row["request"])
    assert stats["requests"] == 6
    starts = [row["start_ns"] for row in rows]
    assert starts == sorted(starts)
    for row in rows:
        busy = [r for r in rows if r["start_ns"] <= row["start_ns"] < r["end_ns"]]
        assert len(busy) <= 2
    assert max(row["in_flight"] for row in rows) == stats["peak_in_flight"]


def test_a_client_that_leaves_frees_its_place(serve: Callable[..., Any]) -> None:
    with serve("--servers", "1", "--fault", "stall@marker=stall") as server:
        assert server.ask("stall", stream=True, patience_s=0.2).ending == "open"
        assert text_of(server.ask("next"))
        rows = server.arrivals()
    assert [row["outcome"] for row in rows] == ["broken", "sent"]


def test_stopping_accounts_for_what_is_unfinished(serve: Callable[..., Any]) -> None:
    with serve("--ttft-ms", "60000") as server, server.connect() as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 14\r\n\r\n" + b'{"prompt":"a"}')
        while server.get("/sim/stats")[1]["in_flight"] == 0:
            pass
        rows = server.arrivals()
    assert [row["outcome"] for row in rows] == ["unfinished"]
    assert rows[0]["first_token_ns"] is None


def test_limits_and_finish_reasons(serve: Callable[..., Any], tmp_path: Path) -> None:
    table = tmp_path / "answers.jsonl"
    table.write_text(json.dumps({"prompt": "q", "text": "  né 中\n🚀 end "}) + "\n")
    with serve("--answers", str(table), "--output-tokens", "5", "--tokens-per-chunk", "3") as server:
        whole = dialect("openai-chat").decode(server.ask("q", stream=True).reads, closed=False)
        assert (whole.text, whole.finish_reason) == ("  né 中\n🚀 end ", "stop")
        assert [e.kind for e in whole.events] == ["role", "content", "content", "finish", "end"]
        cut = dialect("openai-chat").decode(server.ask("q", stream=True, max_tokens=2).reads, closed=False)
        assert (cut.text, cut.finish_reason) == ("  né 中", "length")
        other = dialect("openai-chat").decode(server.ask("other", max_tokens=9).reads, closed=False)
        assert (other.output_tokens, other.finish_reason) == (5, "stop")


def test_questions_about_the_server(serve: Callable[..., Any]) -> None:
    with serve("--model", "m") as server:
        assert server.get("/v1/models")[1]["data"][0]["id"] == "m"
        assert server.get("/health") == (200, {"status": "ok"})
        assert server.get("/nowhere")[0] == 404
        assert server.get("/sim/stats")[1]["requests"] == 0


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"messages":[]}', b'{"messages":[3]}', b'{"messages":3}']
)
def test_an_unusable_request_is_answered_and_the_server_lives(serve: Callable[..., Any], body: bytes) -> None:
    with serve() as server, server.connect() as sock:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        sock.sendall(head + body)
        assert sock.recv(100).startswith(b"HTTP/1.1 400")
        assert server.get("/health")[0] == 200


@pytest.mark.parametrize(
    "arguments", [["--fault", "nonsense"], ["--ttft-ms", "-1"], ["--ttft-ms", "nan"], ["--servers", "0"]]
)
def test_unusable_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[1] in capsys.readouterr().err


class TestTruth:
    def test_constant_times(self) -> None:
        times = ServiceModel(0.02, 0.005, 0.0, 0.0, seed=1).draw()
        assert [times.token_ns(i) for i in range(3)] == [20_000_000, 25_000_000, 30_000_000]

    def test_log_normal_times_have_the_mean_and_variation_asked_for(self) -> None:
        model = ServiceModel(0.1, 0.01, 0.5, 0.0, seed=7)
        drawn = [model.draw().ttft_ns for _ in range(20_000)]
        # Standard error of the mean: 0.5 / sqrt(20000) = 0.35 %; the bounds are about four of them.
        assert statistics.fmean(drawn) == pytest.approx(1e8, rel=0.015)
        assert statistics.pstdev(drawn) / statistics.fmean(drawn) == pytest.approx(0.5, rel=0.05)
        logs = [math.log(x) for x in drawn]
        assert statistics.pstdev(logs) == pytest.approx(math.sqrt(math.log(1.25)), rel=0.03)

    def test_equal_seeds_give_equal_times(self) -> None:
        first, second = (ServiceModel(0.1, 0.01, 1.0, 1.0, seed=3) for _ in range(2))
        assert [first.draw() for _ in range(5)] == [second.draw() for _ in range(5)]

    def test_slots_serve_in_order_and_never_too_many(self) -> None:
        rng = random.Random(5)
        slots, started, running = Slots(3), [], 0
        for i in range(200):
            slots.acquire(lambda i=i: started.append(i))  # type: ignore[misc]
            if rng.random() < 0.5 and len(started) > running:
                running += 1
                slots.release()
            assert len(started) - running <= 3
        assert started == sorted(started)

    def test_a_long_queue_of_instant_requests_is_served(self) -> None:
        slots = Slots(1)
        done: list[int] = []

        def serve(number: int) -> None:
            done.append(number)
            slots.release()

        slots.acquire(lambda: None)
        for i in range(10_000):
            slots.acquire(lambda i=i: serve(i))  # type: ignore[misc]
        assert done == []
        slots.release()
        assert done == list(range(10_000))

    def test_a_withdrawn_request_is_not_started(self) -> None:
        slots, started = Slots(1), []
        waiting = [lambda i=i: started.append(i) for i in range(3)]
        for start in waiting:
            slots.acquire(start)
        assert slots.withdraw(waiting[1])
        assert not slots.withdraw(waiting[0])
        slots.release()
        assert started == [0, 2]

    def test_answers_depend_on_the_prompt_alone(self) -> None:
        answers = Answers(12)
        assert answers.tokens("a") == answers.tokens("a") != answers.tokens("b")
        assert len(answers.tokens("a")) == 12

    def test_prompts_of_both_apis(self) -> None:
        assert prompt_text({"messages": [{"content": "x"}, {"content": "y"}]}) == "y"
        assert prompt_text({"prompt": [1, 2]}) == "1 2"

    @pytest.mark.parametrize("line", ["3", "{}", '{"prompt": "a"}', '{"prompt": 1, "text": "a"}'])
    def test_a_bad_table_of_answers_names_the_line(self, tmp_path: Path, line: str) -> None:
        table = tmp_path / "answers.jsonl"
        table.write_text('{"prompt": "a", "text": "b"}\n' + line + "\n")
        with pytest.raises(ValueError, match=":2: "):
            read_answers(table)
