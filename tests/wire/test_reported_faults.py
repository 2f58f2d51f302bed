"""Faults that were reported against other load generators, one test each, by the id of the report.

The ids are those of the list of public reports that ``data/sse_cases.json`` was made from; each test says
what went wrong elsewhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fairmark.evidence.decode import Answer, decode_answer
from fairmark.evidence.store import OUTCOMES
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read

CHAT = dialect("openai-chat")
COMPLETE = OUTCOMES.index("complete")


def answer(reads: list[Read]) -> Answer:
    return decode_answer(CHAT, reads, COMPLETE, stream=True)


def cut(wire: Any, body: bytes, *places: int) -> Answer:
    """The answer in ``body``, which arrives in pieces cut at ``places``; read 1 brings the first piece."""
    ends = [0, *places, len(body)]
    pieces = [wire.chunked(body[a:b]) for a, b in pairwise(ends)]
    pieces[-1] += wire.END
    return answer(wire.reads(wire.HEAD, *pieces))


def end(wire: Any) -> bytes:
    finish: bytes = wire.chat({}, "stop") + wire.DONE
    return finish


def test_r01_a_character_over_two_reads(wire: Any) -> None:
    """vllm#38717: each network chunk was decoded on its own."""
    body = wire.chat({"content": "né 🚀"}) + end(wire)
    for place in range(1, len(body)):
        assert cut(wire, body, place).response.text == "né 🚀"


def test_r03_several_events_in_one_read_share_a_stamp(wire: Any) -> None:
    """aiperf#368: one read was one event, and equal stamps were refused."""
    found = cut(wire, wire.chat({"content": "a"}) + wire.chat({"content": "b"}) + end(wire))
    content = [e for e in found.response.events if e.kind == "content"]
    assert [(e.arrival_ns, e.read) for e in content] == [(20, 1), (20, 1)]
    assert found.failure is None


def test_r04_an_event_over_several_reads_is_complete_with_the_last(wire: Any) -> None:
    """perf_analyzer#30: an event that a read cut was given up."""
    first = wire.chat({"content": "a"})
    found = cut(wire, first + end(wire), 5, 30, len(first) - 1, len(first))
    assert (found.response.text, found.first_token_ns) == ("a", 50)


@pytest.mark.parametrize("form", [b"data:%b\n\n", b"event: x\nid: 1\nretry: 9\ndata: %b\r\n\r\n"])
def test_r05_other_spellings_of_the_grammar(wire: Any, form: bytes) -> None:
    """vllm#27412: no space after the colon, or further fields, lost all tokens."""
    data = wire.chat({"content": " a "})[6:-2]
    found = cut(wire, form % data + end(wire))
    assert (found.response.text, found.failure) == (" a ", None)


def test_r06_keep_alive_comments_are_neither_data_nor_tokens(wire: Any) -> None:
    """sglang#37986: comments in a long prefill were parsed as JSON."""
    comments = b": ping\n\n:\n\n"
    found = cut(wire, comments + wire.chat({"content": "a"}) + end(wire), len(comments))
    assert (found.first_byte_ns, found.first_token_ns, found.failure) == (10, 30, None)


def test_r08_an_event_may_be_megabytes(wire: Any) -> None:
    """TensorRT-LLM#13952: lines over 128 kB were an error of the HTTP library."""
    text = "w" * 4_000_000
    body = wire.chat({"content": text}) + end(wire)
    found = cut(wire, body, *range(1000, len(body), 1000))
    assert (found.response.text == text, found.failure) == (True, None)


def test_r09_usage_without_choices(wire: Any) -> None:
    """sglang#5451: the empty list of choices was indexed."""
    found = cut(wire, wire.chat({"content": "a"}) + wire.chat({}, "stop") + wire.usage(3, 1) + wire.DONE)
    assert (found.response.input_tokens, found.response.output_tokens, found.failure) == (3, 1, None)


@pytest.mark.parametrize("before", [0, 1])
def test_r10_an_error_inside_a_good_status(wire: Any, before: int) -> None:
    """guidellm#743: counted as a success with the asked number of tokens and a TTFT of 0."""
    error = wire.event({"error": {"message": "worker lost", "code": 500}})
    found = cut(wire, wire.chat({"content": "a"}) * before + error + wire.DONE)
    assert (found.failure, found.failure_detail) == ("engine_error", "worker lost")
    assert found.response.output_tokens is None
    assert (found.first_token_ns is None) == (before == 0)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_r14_reasoning_is_generated(wire: Any, name: str) -> None:
    """guidellm#737: only visible content started the clock."""
    thought = wire.chat({name: "hm"})
    found = cut(wire, thought + wire.chat({"content": "42"}) + end(wire), len(thought))
    visible = next(e for e in found.response.events if e.kind == "content")
    assert (found.first_token_ns, visible.arrival_ns) == (20, 30)


def test_r15_an_answer_of_reasoning_alone_has_a_first_token_and_a_count(wire: Any) -> None:
    """sglang#23949: TTFT and count were 0."""
    found = cut(wire, wire.chat({"reasoning": "hm"}) + wire.chat({}, "length") + wire.usage(3, 7) + wire.DONE)
    assert (found.failure, found.first_token_ns, found.response.output_tokens) == (None, 20, 7)
    assert (found.response.text, found.output_sha256) == ("", None)


@pytest.mark.parametrize("delta", [{"role": "assistant"}, {"role": "assistant", "content": ""}])
def test_r16_the_role_is_no_token(wire: Any, delta: dict[str, str]) -> None:
    """sglang#29251: TTFT was taken at the first frame."""
    role = wire.chat(delta)
    found = cut(wire, role + wire.chat({"content": "a"}) + end(wire), len(role))
    assert (found.first_byte_ns, found.first_token_ns) == (10, 30)


def test_r18_without_usage_the_count_is_unknown_and_never_the_limit(wire: Any) -> None:
    """sglang#24266: the asked maximum stood in for the count."""
    found = cut(wire, wire.chat({"content": "a"}) * 24 + end(wire))
    assert (found.response.output_tokens, found.response.output_token_source) == (None, None)


def test_r30_a_prompt_of_one_token_is_counted_as_one(wire: Any) -> None:
    """vllm#24591: special tokens were taken off."""
    found = cut(wire, wire.chat({"content": "a"}) + wire.chat({}, "stop") + wire.usage(1, 1) + wire.DONE)
    assert (found.response.input_tokens, found.response.input_token_source) == (1, "usage")


def test_r22_counts_that_disagree_are_flagged(wire: Any) -> None:
    """inference-perf#580: more than half of the counts differed, some twofold, and nothing failed."""
    ids = [7] * 2045
    text = wire.chat({"content": "a"}, choice={"token_ids": ids})
    found = cut(wire, text + wire.chat({}, "length") + wire.usage(1, 1024) + wire.DONE)
    assert (found.response.output_tokens, found.flags) == (2045, "token_counts_differ")
