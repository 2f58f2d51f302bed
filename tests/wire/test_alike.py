"""Documents that differ in their text alone are read the short way, with the same result."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.wire import openai_answer
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read, Response

TEXTS = st.one_of(
    st.sampled_from([" word", "word", "", "~", " word~", '"', "\\", "\n", "é", "😀", "stop", "0", "content"]),
    st.text(max_size=4),
)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    text = draw(TEXTS)
    choice: dict[str, Any] = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    document: dict[str, Any] = {"id": "a", "object": "chat.completion.chunk", "choices": [choice]}
    match draw(st.integers(0, 12)):
        case 0:
            choice["finish_reason"] = "stop"
        case 1:
            document["usage"] = {"prompt_tokens": 3, "completion_tokens": draw(st.integers(0, 9))}
        case 2:
            choice["token_ids"] = [1, 2]
        case 3:
            choice["index"] = 1
        case 4:
            choice["delta"] = {"reasoning_content": text}
        case 5:
            document["prompt_token_ids"] = [1, 2, 3]
        case 6:
            document["id"] = text
        case 7:
            document["error"] = {"message": text}
        case 8:
            choice["delta"]["tool_calls"] = [{"index": 0}]
    return document


def stream(events: list[bytes], cuts: list[int]) -> list[Read]:
    body = b"".join(b"data: " + event + b"\n\n" for event in events)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body)
    whole = head + body
    bounds = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    return [Read(10 * number, whole[a:b]) for number, (a, b) in enumerate(pairwise(bounds))]


def decoded(reads: list[Read]) -> Response:
    return dialect("openai-chat").decode(reads, closed=False, stream=True)


@given(
    st.lists(st.tuples(documents(), st.booleans(), st.booleans()), max_size=14),
    st.lists(st.integers(0, 10_000), max_size=8),
    st.booleans(),
)
def test_the_short_way_says_what_the_long_way_says(
    made: list[tuple[dict[str, Any], bool, bool]], cuts: list[int], marked: bool
) -> None:
    events = [
        json.dumps(d, ensure_ascii=escaped, separators=None if spaced else (",", ":")).encode(
            "utf-8", "surrogatepass"
        )
        for d, spaced, escaped in made
    ]
    reads = stream([*events, *([b"[DONE]"] if marked else [])], cuts)
    short = decoded(reads)
    with patch.object(openai_answer, "_LESSONS", 0):
        long = decoded(reads)
    assert short == long


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_short_way_is_taken(separators: tuple[str, str]) -> None:
    def event(text: str) -> bytes:
        document = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        return json.dumps(document, separators=separators).encode()

    answer = openai_answer.Answer(openai_answer.chat_piece)
    events = [event(text) for text in ("a", "b", "c", 'with "quotes"', "d")]
    assert answer.take(events[0], b"") == ("content", None)
    assert answer.take_alike(events, [b""] * 5, 1) == 2
    assert answer.text == ["a", "b", "c"]


def test_a_text_that_a_document_says_twice_teaches_nothing() -> None:
    answer = openai_answer.Answer(openai_answer.chat_piece)
    event = b'{"id":"a","choices":[{"delta":{"content":"a"}}]}'
    answer.take(event, b"")
    assert answer.take_alike([event], [b""], 0) == 0
