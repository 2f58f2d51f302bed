"""The Responses API: typed events and whole documents, from a real server and by OpenAI's reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Response

DATA = Path(__file__).parent / "data"
API = dialect("openai-responses")
ITEM = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}


def typed(wire: Any, kind: str, **fields: Any) -> bytes:
    """One event as OpenAI writes it: named, and with its type in its data."""
    event: bytes = wire.event({"type": kind, "sequence_number": 1, **fields})
    return f"event: {kind}\n".encode() + event


def text(wire: Any, delta: str) -> bytes:
    return typed(wire, "response.output_text.delta", item_id="msg_1", delta=delta)


def ended(wire: Any, status: str = "completed", **fields: Any) -> bytes:
    usage = {
        "input_tokens": 9,
        "output_tokens": 2,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 1},
    }
    response = {"object": "response", "status": status, "error": None, "output": [], "usage": usage, **fields}
    return typed(wire, f"response.{status}", response=response)


def streamed(wire: Any, *events: bytes, **kwargs: Any) -> Response:
    begun = {"object": "response", "status": "in_progress", "error": None, "output": []}
    opening = [
        typed(wire, "response.created", response=begun),
        typed(wire, "response.output_item.added", item=ITEM),
    ]
    return API.decode(wire.stream([*opening, *events], **kwargs), closed=False, stream=True)


def kinds(response: Response) -> list[str]:
    return [event.kind for event in response.events]


def test_a_real_stream(wire: Any) -> None:
    """llama.cpp's server; six tokens were asked for, and it calls the answer completed all the same."""
    body = (DATA / "responses-llamacpp.sse").read_bytes()
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event.strip()]
    response = API.decode(wire.stream(events), closed=False, stream=True)
    assert (response.failure, response.flags) == (None, ())
    assert response.text == "The answer to this classic math"
    assert kinds(response) == ["role", "role", "role", *["content"] * 6, "finish"]
    assert [e.read for e in response.events] == [0, 1, 2, 4, 5, 6, 7, 8, 9, 13]
    assert (response.input_tokens, response.output_tokens, response.cached_tokens) == (38, 6, 37)
    assert (response.output_token_source, response.finish_reason) == ("usage", "stop")


def test_a_real_document_says_the_same(wire: Any) -> None:
    reads = wire.document((DATA / "responses-llamacpp.json").read_bytes())
    response = API.decode(reads, closed=False, stream=False)
    assert (response.text, response.failure) == ("The answer to this classic math", None)
    assert (response.input_tokens, response.output_tokens, response.cached_tokens) == (38, 6, 0)
    assert (kinds(response), response.finish_reason) == (["finish"], "stop")


class TestKinds:
    @pytest.mark.parametrize(
        "name", ["response.reasoning_text.delta", "response.reasoning_summary_text.delta"]
    )
    def test_reasoning(self, wire: Any, name: str) -> None:
        response = streamed(wire, typed(wire, name, delta="hm"), text(wire, "42"), ended(wire))
        assert kinds(response) == ["role", "role", "reasoning", "content", "finish"]
        assert (response.reasoning, response.text) == ("hm", "42")

    def test_a_refusal_is_what_the_user_reads(self, wire: Any) -> None:
        response = streamed(wire, typed(wire, "response.refusal.delta", delta="no"), ended(wire))
        assert (kinds(response)[2], response.text) == ("content", "no")

    def test_a_call_begins_with_its_name(self, wire: Any) -> None:
        call = {"type": "function_call", "name": "weather", "arguments": "", "call_id": "c"}
        arguments = typed(wire, "response.function_call_arguments.delta", item_id="fc", delta='{"city"')
        added = typed(wire, "response.output_item.added", item=call)
        response = streamed(wire, added, arguments, ended(wire, output=[call]))
        assert kinds(response) == ["role", "role", "tool", "tool", "finish"]
        assert (response.finish_reason, response.failure) == ("tool_calls", None)

    def test_an_empty_delta_is_no_token(self, wire: Any) -> None:
        response = streamed(wire, text(wire, ""), ended(wire))
        assert (kinds(response), response.failure) == (["role", "role", "role", "finish"], "empty")

    @pytest.mark.parametrize("kind", ["response.output_text.done", "response.new_thing", "ping"])
    def test_repetitions_and_unknown_events_are_none(self, wire: Any, kind: str) -> None:
        response = streamed(wire, text(wire, "a"), typed(wire, kind, text="a", delta="b"), ended(wire))
        assert (kinds(response), response.text) == (["role", "role", "content", "finish"], "a")

    def test_an_answer_that_comes_with_the_last_event_only(self, wire: Any) -> None:
        whole = [{**ITEM, "content": [{"type": "output_text", "text": "all"}]}]
        response = streamed(wire, ended(wire, output=whole))
        assert (kinds(response), response.text) == (["role", "role", "content"], "all")
        assert (response.failure, response.finish_reason) == (None, "stop")


class TestEnds:
    @pytest.mark.parametrize(
        ("reason", "expected"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
    )
    def test_incomplete_is_an_answer_with_its_reason(self, wire: Any, reason: str, expected: str) -> None:
        last = ended(wire, "incomplete", incomplete_details={"reason": reason})
        response = streamed(wire, text(wire, "a"), last)
        assert (response.finish_reason, response.failure, response.output_tokens) == (expected, None, 2)

    def test_failed_is_an_engine_error(self, wire: Any) -> None:
        last = ended(wire, "failed", error={"code": "server_error", "message": "worker\nlost"}, usage=None)
        response = streamed(wire, text(wire, "a"), last)
        assert (response.failure, response.failure_detail) == ("engine_error", "worker lost")
        assert kinds(response)[-1] == "error"

    def test_an_error_event_is_an_engine_error(self, wire: Any) -> None:
        error = typed(wire, "error", code="overloaded", message="too busy", param=None)
        response = streamed(wire, text(wire, "a"), error)
        assert (response.failure, response.failure_detail) == ("engine_error", "too busy")

    def test_a_cancelled_response_is_cancelled(self, wire: Any) -> None:
        assert streamed(wire, text(wire, "a"), ended(wire, "cancelled")).failure == "cancelled"

    def test_without_the_last_event_it_is_truncated(self, wire: Any) -> None:
        response = streamed(wire, text(wire, "a"))
        assert (response.failure, response.flags) == ("truncated", ("no_end_marker",))

    def test_without_the_end_of_the_body_too(self, wire: Any) -> None:
        assert streamed(wire, text(wire, "a"), ended(wire), end=b"").failure == "truncated"

    @pytest.mark.parametrize(("late", "flags"), [(b"", ()), (b"data: [DONE]\n\n", ())])
    def test_the_marker_of_the_other_apis_may_follow(self, wire: Any, late: bytes, flags: Any) -> None:
        assert streamed(wire, text(wire, "a"), ended(wire), late).flags == flags

    def test_anything_else_after_the_end_is_flagged_and_not_read(self, wire: Any) -> None:
        response = streamed(wire, text(wire, "a"), ended(wire), text(wire, "b"))
        assert (response.text, response.flags) == ("a", ("data_after_end_marker",))

    @pytest.mark.parametrize(
        "bad",
        [
            {"type": 3},
            {"type": "response.output_text.delta", "delta": 3},
            {"type": "response.output_item.added"},
            {"type": "response.completed", "response": None},
            {"type": "response.completed", "response": {"status": "completed", "usage": 3}},
            {"type": "response.completed", "response": {"status": "completed", "output": [3]}},
            {"type": "response.incomplete", "response": {"status": "incomplete"}},
        ],
    )
    def test_a_document_that_is_not_what_was_promised(self, wire: Any, bad: dict[str, Any]) -> None:
        response = streamed(wire, text(wire, "a"), wire.event(bad))
        assert (response.failure, response.text) == ("malformed", "a")


class TestWhole:
    def check(self, wire: Any, **fields: Any) -> Response:
        body = {"object": "response", "status": "completed", "error": None, "output": [], **fields}
        return API.decode(wire.document(body), closed=False, stream=False)

    def test_reasoning_and_calls(self, wire: Any) -> None:
        output = [
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "function_call", "name": "f", "arguments": "{}"},
        ]
        response = self.check(wire, output=output)
        assert (response.reasoning, response.text, response.finish_reason) == ("hm", "", "tool_calls")
        assert response.failure is None

    def test_failures(self, wire: Any) -> None:
        assert self.check(wire).failure == "empty"
        assert self.check(wire, status="failed", error={"message": "x"}).failure == "engine_error"
        assert self.check(wire, status="in_progress").failure == "empty"
        assert API.decode(wire.document({"id": 1}), closed=False, stream=False).failure == "malformed"


class TestRequest:
    def body(self, prompt: Any, **generation: Any) -> dict[str, Any]:
        sample = Sample(7, {}, prompt, Generation(**generation))
        body: dict[str, Any] = json.loads(API.render(sample, model="m", stream=True))
        return body

    def test_what_it_holds(self) -> None:
        messages = [{"role": "user", "content": "hi"}]
        body = self.body(messages, max_output_tokens=8, top_p=0.5)
        assert body == {
            "model": "m", "stream": True, "input": messages,
            "temperature": 0, "max_output_tokens": 8, "top_p": 0.5,
        }  # fmt: skip
        assert self.body("hi")["input"] == "hi"

    @pytest.mark.parametrize("name", ["stop", "seed", "ignore_eos"])
    def test_what_the_api_cannot_carry_is_refused(self, name: str) -> None:
        value = {"stop": ("x",), "seed": 0, "ignore_eos": True}[name]
        with pytest.raises(InputError, match=f"generation.{name}"):
            self.body("hi", **{name: value})

    def test_a_sample_without_text_is_refused(self) -> None:
        with pytest.raises(InputError, match="sample 7"):
            self.body(None)

    @pytest.mark.parametrize("name", ["input", "max_output_tokens", "previous_response_id"])
    def test_extra_fields_cannot_override_the_scenario(self, name: str) -> None:
        with pytest.raises(InputError, match="would override"):
            API.render(Sample(0, {}, "x", Generation()), model="m", stream=True, extra={name: 1})
