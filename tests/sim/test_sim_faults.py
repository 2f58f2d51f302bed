"""Every fault on demand really happens on the wire, and is read as the failure kind that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairmark.wire.dialects import dialect
from fairmark.wire.response import Response
from fairmark_sim.faults import BREAKING, FAULTS, QUIRKS, FaultPlan, FaultRule, parse_rule

# Fault -> the failure kind and how the connection ends, for a stream; None where it is not about one answer.
STREAMED = {
    "refuse": ("connect", "closed"),
    "exit": None,
    "reset-before": ("connect", "reset"),
    "close-before": ("connect", "closed"),
    "reset-after": ("truncated", "reset"),
    "stall-before": ("connect", "open"),
    "stall": ("truncated", "open"),
    "truncate": ("truncated", "closed"),
    "malformed-event": ("malformed", "open"),
    "malformed-http": ("malformed", "closed"),
    "error": ("engine_error", "open"),
    "error-first": ("engine_error", "open"),
    "empty": ("empty", "open"),
    "no-finish": ("truncated", "open"),
    "finish-error": ("engine_error", "open"),
    "finish-abort": ("cancelled", "open"),
    "status-429": ("rejected", "open"),
    "status-503": ("rejected", "open"),
    **{f"status-{code}": ("http_status", "open") for code in (400, 401, 404, 422, 500, 502)},
}
STALLS = {"stall", "stall-before", "open-after-done"}


def ask(server: Any, fault: str, **fields: Any) -> tuple[Response, str]:
    patience_s = 0.5 if fault in STALLS else 10.0
    answer = server.ask(
        f"[[fault:{fault}]]", stream_options={"include_usage": True}, patience_s=patience_s, **fields
    )
    name = "openai-chat" if fields.get("chat", True) else "openai-completions"
    stream = fields.get("stream", False)
    return dialect(name).decode(answer.reads, closed=answer.ending == "closed", stream=stream), answer.ending


def test_every_fault_is_listed_once() -> None:
    assert set(STREAMED) == set(BREAKING)
    assert not set(BREAKING) & set(QUIRKS)


@pytest.mark.parametrize("chat", [True, False])
def test_breaking_faults_of_streams(serve: Callable[..., Any], chat: bool) -> None:
    with serve("--output-tokens", "6") as server:
        for fault in sorted(set(STREAMED) - {"refuse", "exit"}):
            response, ending = ask(server, fault, stream=True, chat=chat)
            assert (fault, response.failure, ending) == (fault, *STREAMED[fault])  # type: ignore[misc]


def test_breaking_faults_of_whole_answers(serve: Callable[..., Any]) -> None:
    with serve("--output-tokens", "6") as server:
        for fault in sorted(set(STREAMED) - {"refuse", "exit"}):
            response, ending = ask(server, fault, stream=False)
            assert (fault, response.failure, ending) == (fault, *STREAMED[fault])  # type: ignore[misc]


@pytest.mark.parametrize("stream", [True, False])
def test_quirks_change_the_framing_and_not_the_answer(serve: Callable[..., Any], stream: bool) -> None:
    with serve("--output-tokens", "6") as server:
        for fault in sorted(QUIRKS.keys() - STALLS):
            response, _ = ask(server, fault, stream=stream)
            assert (fault, response.failure, response.finish_reason) == (fault, None, "stop")
            assert len(response.text.split() + response.reasoning.split()) == 6
            assert response.output_tokens == (None if fault == "no-usage" else 6), fault
            assert ("no_end_marker" in response.flags) == (stream and fault == "no-done")


def test_a_body_left_open_after_the_end_marker(serve: Callable[..., Any]) -> None:
    fault = "open-after-done"
    with serve("--fault", "until-close@marker=close") as server:
        # Without its terminal chunk a chunked body is not over, whatever the events say.
        response, ending = ask(server, fault, stream=True)
        assert (response.failure, ending) == ("truncated", "open")
        # Where only the close would end the body, the end marker does.
        answer = server.ask(f"[[fault:{fault}]] close", stream=True, patience_s=0.5)
        response = dialect("openai-chat").decode(answer.reads, closed=False)
        assert (response.failure, answer.ending, response.finish_reason) == (None, "open", "stop")


def test_a_quirk_joins_any_fault(serve: Callable[..., Any]) -> None:
    with serve(
        "--output-tokens", "6", "--fault", "crlf", "--fault", "split", "--fault", "comments"
    ) as server:
        for fault in ("truncate", "error", "no-finish"):
            response, ending = ask(server, fault, stream=True)
            assert (response.failure, ending) == STREAMED[fault]


def test_what_each_quirk_looks_like(serve: Callable[..., Any]) -> None:
    marks = {
        "crlf": b"}\r\n\r\n\r\n",
        "cr": b"}\r\r\r\n",
        "comments": b": keep-alive\n\n:\n",
        "fields": b"retry: 1500\nunknown: field\ndata: {",
        "no-space": b"\ndata:{",
        "multi-line": b",\ndata: ",
        "bom": b"\xef\xbb\xbfdata: ",
        "token-ids": b'"token_ids":[1]',
        "reasoning": b'"reasoning_content"',
        "close-after": b"\r\nConnection: close\r\n",
        "content-length": b"\r\nContent-Length: ",
    }
    with serve("--output-tokens", "4", "--fault", "close-after@marker=close me") as server:
        plain = server.ask("plain", stream=True).data
        for quirk, mark in marks.items():
            assert mark not in plain, quirk
            assert mark in server.ask(f"[[fault:{quirk}]]", stream=True).data, quirk
        assert server.ask("close me", stream=True).ending == "closed"
        assert b"Connection: close" not in server.ask("[[fault:close-silently]]", stream=True).data
        until_close = server.ask("[[fault:until-close]]", stream=True)
        assert (until_close.ending, b"chunked" in until_close.data) == ("closed", False)
        assert len(server.ask("[[fault:slow-headers]]", stream=True).reads) > 20
        assert b'"role"' not in server.ask("[[fault:no-role]]", stream=True).data


def test_refuse_closes_the_door(serve: Callable[..., Any]) -> None:
    with serve() as server:
        idle = server.connect()
        assert server.ask("[[fault:refuse]]").data == b""
        assert idle.recv(1) == b""
        idle.close()
        with pytest.raises(ConnectionRefusedError):
            server.connect()
        assert server.process.poll() is None


def test_exit_ends_the_server_after_some_requests(serve: Callable[..., Any]) -> None:
    with serve("--fault", "exit@after=2") as server:
        assert [server.ask("a").data[:12] for _ in range(2)] == [b"HTTP/1.1 200"] * 2
        assert server.ask("a").data == b""
        assert server.process.wait(10) == 1
        assert [row["outcome"] for row in server.arrivals()] == ["sent", "sent", "broken"]


class TestRules:
    def plan(self, *rules: str, seed: int = 1) -> FaultPlan:
        return FaultPlan([parse_rule(rule) for rule in rules], seed)

    def hits(self, plan: FaultPlan, kind: str, n: int = 1000) -> list[int]:
        return [i for i in range(1, n + 1) if kind in plan.choose(i, "")]

    def test_every_nth(self) -> None:
        assert self.hits(self.plan("stall@every=300"), "stall") == [300, 600, 900]

    def test_after(self) -> None:
        assert self.hits(self.plan("exit@after=998"), "exit") == [999, 1000]

    def test_a_rate_is_met_and_repeats_with_its_seed(self) -> None:
        hits = self.hits(self.plan("error@rate=0.1"), "error")
        # Binomial(1000, 0.1): mean 100, standard deviation 9.5.
        assert 60 < len(hits) < 140
        assert hits == self.hits(self.plan("error@rate=0.1"), "error")
        assert hits != self.hits(self.plan("error@rate=0.1", seed=2), "error")

    def test_one_rule_does_not_shift_another(self) -> None:
        alone = self.hits(self.plan("crlf@rate=0.3", "error@rate=0.1"), "error")
        assert alone == self.hits(self.plan("cr@rate=0.9", "error@rate=0.1"), "error")

    def test_the_first_breaking_fault_wins_and_quirks_add_up(self) -> None:
        plan = self.plan("crlf", "stall@marker=x", "error", "split@marker=x")
        assert plan.choose(1, "x") == {"crlf", "stall", "split"}
        assert plan.choose(2, "y") == {"crlf", "error"}
        assert plan.choose(3, "[[fault:empty]] x") == {"crlf", "empty", "split"}
        assert plan.choose(4, "[[fault:nonsense]]") == {"crlf", "error"}

    @pytest.mark.parametrize(
        "text", ["", "nonsense", "stall@", "stall@rate=2", "stall@every=0", "stall@often=1", "stall@rate=x"]
    )
    def test_a_rule_that_cannot_be_read_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"."):
            parse_rule(text)

    def test_rules_are_read(self) -> None:
        assert parse_rule("stall@rate=0.5") == FaultRule("stall", rate=0.5)
        assert parse_rule("stall@marker=a@b=c") == FaultRule("stall", marker="a@b=c")
        assert all(parse_rule(kind) == FaultRule(kind) for kind in FAULTS)
