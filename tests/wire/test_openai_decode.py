"""Responses of the OpenAI API: events, counts, failures and flags, one fact at a time."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from fairmark.evidence.columns import EVENT_KINDS, FAILURES
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Response

CHAT = dialect("openai-chat")
TEXT = dialect("openai-completions")


def kinds(response: Response) -> list[str]:
    return [event.kind for event in response.events]


def good(wire: Any, *events: bytes, **kwargs: Any) -> Response:
    """The events between a role and an ordinary end, decoded."""
    sent = [wire.chat({"role": "assistant"}), *events, wire.chat({}, "stop"), wire.DONE]
    return CHAT.decode(wire.stream(sent, **kwargs), closed=False)


def test_an_ordinary_stream(wire: Any) -> None:
    events = [
        wire.chat({"role": "assistant", "content": ""}),
        wire.chat({"content": "né"}),
        wire.chat({"content": " 中"}),
        wire.chat({}, "length"),
        wire.usage(5, 2, prompt_tokens_details={"cached_tokens": 3}),
        wire.DONE,
    ]
    response = CHAT.decode(wire.stream(events), closed=False)
    assert (response.http_status, response.failure, response.flags) == (200, None, ())
    assert kinds(response) == ["role", "content", "content", "finish", "usage", "end"]
    assert [(e.read, e.arrival_ns) for e in response.events] == [(i, 10 * i + 10) for i in range(6)]
    assert (response.text, response.finish_reason) == ("né 中", "length")
    assert (response.input_tokens, response.input_token_source) == (5, "usage")
    assert (response.output_tokens, response.output_token_source) == (2, "usage")
    assert response.cached_tokens == 3
    assert [e.n_tokens for e in response.events] == [None] * 6


def test_a_completions_stream(wire: Any) -> None:
    events = [wire.text("a"), wire.text(" b"), wire.text("", "stop"), wire.usage(1, 2), wire.DONE]
    response = TEXT.decode(wire.stream(events), closed=False)
    assert kinds(response) == ["content", "content", "finish", "usage", "end"]
    assert (response.text, response.failure) == ("a b", None)


def test_without_usage_or_ids_there_is_no_count(wire: Any) -> None:
    response = good(wire, wire.chat({"content": "a b c"}))
    assert (response.output_tokens, response.output_token_source) == (None, None)
    assert (response.input_tokens, response.input_token_source) == (None, None)


class TestKinds:
    def test_reasoning_by_either_name_once(self, wire: Any) -> None:
        response = good(
            wire,
            wire.chat({"reasoning_content": "h"}),
            wire.chat({"reasoning": "m", "reasoning_content": "m"}),
            wire.chat({"reasoning": "!", "content": None}),
            wire.chat({"content": "42"}),
        )
        assert kinds(response)[1:5] == ["reasoning", "reasoning", "reasoning", "content"]
        assert (response.reasoning, response.text) == ("hm!", "42")

    def test_only_reasoning_is_an_answer(self, wire: Any) -> None:
        assert good(wire, wire.chat({"reasoning": "hm"})).failure is None

    def test_content_beside_reasoning_is_content(self, wire: Any) -> None:
        response = good(wire, wire.chat({"reasoning": "a", "content": "b"}))
        assert (kinds(response)[1], response.reasoning, response.text) == ("content", "a", "b")

    @pytest.mark.parametrize("field", ["tool_calls", "function_call"])
    def test_tool_calls_are_generated(self, wire: Any, field: str) -> None:
        call = {"function": {"name": "f", "arguments": ""}}
        response = good(wire, wire.chat({field: [call] if field == "tool_calls" else call}))
        assert (kinds(response)[1], response.failure, response.text) == ("tool", None, "")

    @pytest.mark.parametrize("delta", [{}, {"content": ""}, {"content": None}, {"tool_calls": []}])
    def test_an_empty_delta_is_no_token(self, wire: Any, delta: dict[str, Any]) -> None:
        response = good(wire, wire.chat(delta))
        assert kinds(response) == ["role", "role", "finish", "end"]
        assert response.failure == "empty"

    def test_a_refusal_is_what_the_user_reads(self, wire: Any) -> None:
        response = good(wire, wire.chat({"refusal": "no"}))
        assert (kinds(response)[1], response.text) == ("content", "no")

    def test_a_message_is_one_event_however_much_it_holds(self, wire: Any) -> None:
        usage = {"prompt_tokens": 1, "completion_tokens": 2}
        response = CHAT.decode(
            wire.stream([wire.chat({"content": "Yes."}, "stop", usage=usage), wire.DONE]), closed=False
        )
        assert kinds(response) == ["content", "end"]
        assert (response.events[0].n_tokens, response.output_tokens, response.finish_reason) == (2, 2, "stop")

    @pytest.mark.parametrize("ping", [{"type": "ping"}, {}, {"choices": []}, {"choices": None}])
    def test_objects_that_say_nothing_are_no_events(self, wire: Any, ping: dict[str, Any]) -> None:
        response = good(wire, wire.event(ping), wire.chat({"content": "a"}))
        assert kinds(response) == ["role", "content", "finish", "end"]
        assert response.failure is None

    def test_every_kind_is_in_the_contract(self, wire: Any) -> None:
        response = good(wire, wire.chat({"content": "a"}), wire.usage(1, 1), wire.event({"error": "x"}))
        assert set(kinds(response)) <= set(EVENT_KINDS)


class TestCounts:
    def test_ids_are_the_best_count(self, wire: Any) -> None:
        response = good(
            wire,
            wire.chat({"content": "ab"}, choice={"token_ids": [7, 8]}, prompt_token_ids=[1, 2, 3]),
            wire.chat({"content": "c"}, choice={"token_ids": [9]}),
            wire.usage(3, 3),
        )
        assert [e.n_tokens for e in response.events if e.kind == "content"] == [2, 1]
        assert (response.token_ids, response.output_tokens, response.output_token_source) == (
            [7, 8, 9],
            3,
            "ids",
        )
        assert (response.input_tokens, response.input_token_source) == (3, "ids")
        assert response.flags == ()

    def test_ids_that_disagree_with_usage_are_flagged(self, wire: Any) -> None:
        response = good(wire, wire.chat({"content": "ab"}, choice={"token_ids": [7]}), wire.usage(3, 2))
        assert (response.output_tokens, response.flags) == (1, ("token_counts_differ",))

    def test_ids_in_some_events_only_count_nothing(self, wire: Any) -> None:
        events = [wire.chat({"content": "a"}, choice={"token_ids": [7]}), wire.chat({"content": "b"})]
        response = good(wire, *events, wire.usage(3, 2))
        assert (response.token_ids, response.output_tokens, response.output_token_source) == (
            None,
            2,
            "usage",
        )

    def test_ids_without_text_are_tokens_held_back(self, wire: Any) -> None:
        response = good(wire, wire.chat({"content": ""}, choice={"token_ids": [240]}))
        assert (kinds(response)[1], response.events[1].n_tokens) == ("content", 1)

    def test_the_end_of_sequence_alone_is_an_empty_answer(self, wire: Any) -> None:
        events = [
            wire.chat({"role": "assistant"}),
            wire.chat({}, "stop", choice={"token_ids": [2]}),
            wire.DONE,
        ]
        response = CHAT.decode(wire.stream(events), closed=False)
        assert (kinds(response), response.failure) == (["role", "finish", "end"], "empty")

    def test_usage_in_every_event_gives_the_tokens_of_each(self, wire: Any) -> None:
        sizes = [0, 2, 2, 5]
        texts = ["", "ab", "c", "def"]
        events = [
            wire.chat({"content": t}, usage={"prompt_tokens": 4, "completion_tokens": n})
            for t, n in zip(texts, sizes, strict=True)
        ]
        response = good(wire, *events, wire.usage(4, 5))
        assert [e.n_tokens for e in response.events if e.kind == "content"] == [2, 0, 3]
        assert response.output_tokens == 5

    def test_a_total_at_the_end_is_not_the_size_of_the_last_event(self, wire: Any) -> None:
        total = {"prompt_tokens": 1, "completion_tokens": 9}
        events = [wire.chat({"content": "a"}), wire.chat({"content": "b"}, "stop", usage=total), wire.DONE]
        response = CHAT.decode(wire.stream(events), closed=False)
        assert [e.n_tokens for e in response.events] == [None, None, None]
        assert response.output_tokens == 9

    @pytest.mark.parametrize("count", [None, -1, "3", 2.5, True])
    def test_a_count_that_is_none_counts_nothing(self, wire: Any, count: Any) -> None:
        usage = wire.event({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": count}})
        response = good(wire, wire.chat({"content": "a"}), usage)
        assert (response.input_tokens, response.output_tokens, response.failure) == (None, None, None)


class TestFailures:
    def check(self, response: Response, failure: str, detail: str) -> None:
        assert failure in FAILURES
        assert response.failure == failure
        assert detail in (response.failure_detail or "")

    def test_nothing_is_a_broken_connection(self) -> None:
        self.check(CHAT.decode([], closed=True), "connect", "before any response byte")

    def test_half_a_head_is_truncated(self, wire: Any) -> None:
        self.check(CHAT.decode(wire.reads(wire.HEAD[:30]), closed=True), "truncated", "head")

    def test_something_else_than_http_is_malformed(self, wire: Any) -> None:
        self.check(CHAT.decode(wire.reads(b"SSH-2.0-x\r\n"), closed=True), "malformed", "not HTTP/1.1")

    @pytest.mark.parametrize(
        ("status", "failure"),
        [("429 Too Many Requests", "rejected"), ("503 Service Unavailable", "rejected")]
        + [(s, "http_status") for s in ("201 Created", "302 Found", "400 Bad Request", "500 Oops")],
    )
    def test_a_status_other_than_200(self, wire: Any, status: str, failure: str) -> None:
        reads = wire.document(
            {"error": {"message": "queue\nfull"}}, status=status, fields="Retry-After: 2\r\n"
        )
        response = CHAT.decode(reads, closed=False)
        self.check(response, failure, f"HTTP {status[:3]}, Retry-After 2: queue full")
        assert (response.http_status, list(response.events)) == (int(status[:3]), [])

    def test_an_error_page_is_quoted_shortly(self, wire: Any) -> None:
        response = CHAT.decode(wire.document(b"<p>gone\r\n" * 500, status="404 Gone"), closed=False)
        self.check(response, "http_status", "HTTP 404: <p>gone <p>gone")
        assert len(response.failure_detail or "") < 250

    @pytest.mark.parametrize("closed", [False, True])
    def test_no_terminal_chunk_is_truncated_even_after_the_end_marker(self, wire: Any, closed: bool) -> None:
        events = [wire.chat({"content": "a"}), wire.chat({}, "stop"), wire.DONE]
        response = CHAT.decode(wire.stream(events, end=b""), closed=closed)
        self.check(response, "truncated", "did not end")
        assert (response.text, response.finish_reason) == ("a", "stop")

    def test_no_finish_reason_is_truncated_with_or_without_end_marker(self, wire: Any) -> None:
        with_marker = CHAT.decode(wire.stream([wire.chat({"content": "a"}), wire.DONE]), closed=False)
        self.check(with_marker, "truncated", "no finish reason")
        without = CHAT.decode(wire.stream([wire.chat({"content": "a"})]), closed=False)
        self.check(without, "truncated", "no finish reason and no end marker")

    def test_a_finish_reason_in_a_cut_off_event_does_not_count(self, wire: Any) -> None:
        cut = wire.chat({}, "stop")[:-1]
        response = CHAT.decode(wire.stream([wire.chat({"content": "a"}), cut]), closed=False)
        self.check(response, "truncated", "no finish reason")
        assert "unfinished_event" in response.flags

    @pytest.mark.parametrize(
        "bad",
        [
            *(
                b"{",
                b"nonsense",
                b"[1]",
                b"3",
                b"[DONE",
                b"\\ud",
                b'{"a": NaN}',
                b'{"a": NaN, "b": "\\ud800"}',
            ),
            *(b'{"a":"\xff"}', b'{"a":"\xc3"}', b'{"a":"\\ud8"}', b'{"usage": 3}', b'{"choices": 3}'),
            *(b'{"choices":[3]}', b'{"choices":[{"delta":3}]}', b'{"choices":[{"delta":{"content":3}}]}'),
            *(b'{"choices":[{"delta":{"content":"x"},"token_ids":["x"]}]}',),
            *(b'{"choices":[{"delta":{"content":"x"},"finish_reason":3}]}',),
        ],
    )
    def test_one_bad_event_fails_the_query_and_keeps_the_rest(self, wire: Any, bad: bytes) -> None:
        response = good(
            wire, wire.chat({"content": "a"}), b"data: " + bad + b"\n\n", wire.chat({"content": "b"})
        )
        assert response.failure == "malformed"
        assert response.text == "ab"
        assert kinds(response) == ["role", "content", "error", "content", "finish", "end"]

    def test_deep_nesting_is_malformed_and_not_a_crash(self, wire: Any) -> None:
        deep = b'data: {"a":"\\ud83d","b":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n\n"
        assert good(wire, wire.chat({"content": "a"}), deep).failure == "malformed"

    @pytest.mark.parametrize(
        ("error", "message"),
        [
            ({"error": {"message": "worker lost", "code": 500}}, "worker lost"),
            ({"error": "out of\nmemory"}, "out of memory"),
            ({"error": {"code": 7}}, "{'code': 7}"),
            ({"object": "error", "message": "too long", "choices": []}, "too long"),
        ],
    )
    def test_an_error_inside_the_stream(self, wire: Any, error: dict[str, Any], message: str) -> None:
        response = good(wire, wire.chat({"content": "a"}), wire.event(error))
        self.check(response, "engine_error", message)
        assert kinds(response)[2] == "error"

    def test_an_event_named_error_is_one(self, wire: Any) -> None:
        named = b"event: error\n" + wire.event({"message": "boom"})
        self.check(good(wire, wire.chat({"content": "a"}), named), "engine_error", "boom")

    @pytest.mark.parametrize("harmless", [{"error": None}, {"error": ""}, {"error": {}}])
    def test_an_empty_error_is_none(self, wire: Any, harmless: dict[str, Any]) -> None:
        assert good(wire, wire.chat({"content": "a"}, **harmless)).failure is None

    def test_the_first_failure_is_the_one_told(self, wire: Any) -> None:
        sent = [wire.chat({"content": "a"}), wire.event({"error": "boom"}), b"data: {\n\n"]
        self.check(CHAT.decode(wire.stream(sent, end=b""), closed=True), "engine_error", "boom")

    @pytest.mark.parametrize(
        ("reason", "failure"),
        [("error", "engine_error"), ("abort", "cancelled"), ("cancelled", "cancelled")],
    )
    def test_finish_reasons_that_are_failures(self, wire: Any, reason: str, failure: str) -> None:
        events = [wire.chat({"content": "a"}), wire.chat({}, reason), wire.DONE]
        self.check(CHAT.decode(wire.stream(events), closed=False), failure, repr(reason))

    def test_a_broken_chunk_header_is_malformed(self, wire: Any) -> None:
        response = CHAT.decode(wire.stream([wire.chat({"content": "a"})], end=b"zz\r\n"), closed=True)
        self.check(response, "malformed", "framing is broken")
        assert response.text == "a"

    def test_a_coding_that_was_not_accepted_is_malformed(self, wire: Any) -> None:
        head = wire.HEAD[:-2] + b"Content-Encoding: gzip\r\n\r\n"
        self.check(CHAT.decode(wire.stream([b"\x1f\x8b"], head=head), closed=False), "malformed", "gzip")

    def test_a_web_page_is_malformed(self, wire: Any) -> None:
        reads = wire.reads(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>")
        self.check(CHAT.decode(reads, closed=False), "malformed", "<html>")


class TestFlags:
    def test_a_missing_end_marker_is_a_flag_only(self, wire: Any) -> None:
        response = CHAT.decode(
            wire.stream([wire.chat({"content": "a"}), wire.chat({}, "stop")]), closed=False
        )
        assert (response.failure, response.flags) == (None, ("no_end_marker",))

    def test_events_after_the_end_marker_are_not_read(self, wire: Any) -> None:
        events = [wire.chat({"content": "a"}, "stop"), wire.DONE, wire.chat({"content": "b"})]
        response = CHAT.decode(wire.stream(events), closed=False)
        assert (response.text, response.flags) == ("a", ("data_after_end_marker",))

    def test_tokens_after_the_finish_reason(self, wire: Any) -> None:
        events = [wire.chat({"content": "a"}, "stop"), wire.chat({"content": "b"}), wire.DONE]
        assert CHAT.decode(wire.stream(events), closed=False).flags == ("tokens_after_finish",)

    def test_bytes_after_the_response(self, wire: Any) -> None:
        response = good(wire, wire.chat({"content": "a"}), end=wire.END + b"HTTP/1.1 200 OK\r\n")
        assert (response.failure, response.flags) == (None, ("bytes_after_end",))

    def test_choices_that_nobody_asked_for_are_left_out(self, wire: Any) -> None:
        two = {"choices": [{"index": 1, "delta": {"content": "x"}}, {"index": 0, "delta": {"content": "a"}}]}
        response = good(
            wire, wire.event(two), wire.event({"choices": [{"index": 1, "delta": {"content": "y"}}]})
        )
        assert (response.text, response.flags) == ("a", ("extra_choices",))
        assert kinds(response) == ["role", "content", "role", "finish", "end"]


class TestText:
    def test_surrogate_halves_in_two_events_are_one_character(self, wire: Any) -> None:
        half = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
        response = good(wire, half % rb"\ud83d", half % rb"\ude80")
        assert (response.text, response.failure) == ("🚀", None)

    def test_a_lone_half_is_replaced(self, wire: Any) -> None:
        half = b'data: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"},"finish_reason":null}]}\n\n'
        response = good(wire, half)
        assert response.text == "a�"
        response.text.encode()

    def test_white_space_is_kept(self, wire: Any) -> None:
        assert good(wire, wire.chat({"content": "  a"}), wire.chat({"content": " \n"})).text == "  a \n"

    def test_line_separators_of_unicode_are_text(self, wire: Any) -> None:
        odd = "a\u2028b\u0085c\x0bd"
        assert good(wire, wire.chat({"content": odd})).text == odd


class TestWhole:
    """Responses that are one JSON document."""

    ANSWER: ClassVar[dict[str, Any]] = {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }

    def test_an_answer_has_an_end_and_no_first_token(self, wire: Any) -> None:
        whole = wire.document(self.ANSWER)[0].data
        response = CHAT.decode(wire.reads(whole[:80], whole[80:]), closed=False, stream=False)
        assert (response.text, response.finish_reason, response.failure) == ("hi", "stop", None)
        assert (response.input_tokens, response.output_tokens) == (3, 1)
        assert [(e.kind, e.read, e.arrival_ns) for e in response.events] == [("finish", 1, 20)]
        assert response.flags == ()

    def test_a_completions_answer(self, wire: Any) -> None:
        body = {"choices": [{"index": 0, "text": "hi", "finish_reason": "length", "token_ids": [4, 5]}]}
        response = TEXT.decode(wire.document(body), closed=False, stream=False)
        assert (response.text, response.output_tokens, response.output_token_source) == ("hi", 2, "ids")

    def test_half_a_document_is_truncated_and_not_malformed(self, wire: Any) -> None:
        (read,) = wire.document(self.ANSWER)
        response = CHAT.decode(wire.reads(read.data[:-5]), closed=True, stream=False)
        assert (response.failure, list(response.events)) == ("truncated", [])

    @pytest.mark.parametrize(
        ("change", "failure"),
        [
            ({"choices": []}, "malformed"),
            ({"choices": None}, "malformed"),
            ({"error": {"message": "boom"}}, "engine_error"),
            ({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}, "empty"),
            ({"choices": [{"message": {"content": "a"}, "finish_reason": None}]}, "truncated"),
            ({"choices": [{"message": {"content": "a"}, "finish_reason": "abort"}]}, "cancelled"),
        ],
    )
    def test_failures(self, wire: Any, change: dict[str, Any], failure: str) -> None:
        reads = wire.document({**self.ANSWER, **change})
        assert CHAT.decode(reads, closed=False, stream=False).failure == failure

    def test_a_body_that_the_close_ends_needs_the_close(self, wire: Any) -> None:
        data = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(self.ANSWER).encode()
        assert CHAT.decode(wire.reads(data), closed=True, stream=False).failure is None
        assert CHAT.decode(wire.reads(data), closed=False, stream=False).failure == "truncated"

    def test_the_content_type_tells_when_the_server_ignored_what_was_asked(self, wire: Any) -> None:
        whole = CHAT.decode(wire.document(self.ANSWER), closed=False, stream=True)
        assert (whole.text, whole.flags, kinds(whole)) == ("hi", ("not_streamed",), ["finish"])
        events = [wire.chat({"content": "a"}, "stop"), wire.DONE]
        streamed = CHAT.decode(wire.stream(events), closed=False, stream=False)
        assert (streamed.text, streamed.flags) == ("a", ("streamed_unasked",))

    def test_another_content_type_is_read_as_what_was_asked_for(self, wire: Any) -> None:
        head = wire.HEAD.replace(b"text/event-stream", b"text/plain; charset=utf-8")
        events = [wire.chat({"content": "a"}, "stop"), wire.DONE]
        assert CHAT.decode(wire.stream(events, head=head), closed=False, stream=True).text == "a"
