"""Request bodies: what they hold, that they are canonical, and what cannot be asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.wire.dialects import DIALECTS, dialect

MESSAGES = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "né 中 🚀"}]


def sample(prompt: Any, generation: Generation | None = None, token_ids: list[int] | None = None) -> Sample:
    return Sample(7, {}, prompt, generation or Generation(max_output_tokens=8), token_ids=token_ids)


def test_a_chat_request_byte_by_byte() -> None:
    generation = Generation(8, temperature=0.5, top_p=0.9, seed=3, stop=("\n", "Q"), ignore_eos=True)
    body = dialect("openai-chat").render(
        sample(MESSAGES, generation), model="m", stream=True, extra={"cache_prompt": False}
    )
    assert body.decode() == (
        '{"cache_prompt":false,"ignore_eos":true,"max_tokens":8,'
        '"messages":[{"content":"be brief","role":"system"},{"content":"né 中 🚀","role":"user"}],'
        '"model":"m","seed":3,"stop":["\\n","Q"],"stream":true,"stream_options":{"include_usage":true},'
        '"temperature":0.5,"top_p":0.9}'
    )


def test_a_completion_request_byte_by_byte() -> None:
    body = dialect("openai-completions").render(sample("once"), model="m", stream=False)
    assert body == b'{"max_tokens":8,"model":"m","prompt":"once","stream":false,"temperature":0}'


def test_text_becomes_one_user_message_in_a_chat() -> None:
    body = json.loads(dialect("openai-chat").render(sample("hi"), model="m", stream=False))
    assert body["messages"] == [{"role": "user", "content": "hi"}]


def test_token_ids_are_sent_where_there_is_no_text() -> None:
    body = json.loads(
        dialect("openai-completions").render(sample(None, token_ids=[5, 6]), model="m", stream=False)
    )
    assert body["prompt"] == [5, 6]


def test_no_limit_is_left_out_and_usage_is_asked_for_in_streams_only() -> None:
    rendered = [
        json.loads(dialect("openai-chat").render(sample("x", Generation()), model="m", stream=stream))
        for stream in (False, True)
    ]
    assert [set(body) for body in rendered] == [
        {"messages", "model", "stream", "temperature"},
        {"messages", "model", "stream", "stream_options", "temperature"},
    ]


def test_extra_stream_options_are_kept_beside_usage() -> None:
    extra = {"stream_options": {"continuous_usage_stats": True, "include_usage": False}}
    body = json.loads(dialect("openai-chat").render(sample("x"), model="m", stream=True, extra=extra))
    assert body["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}


@pytest.mark.parametrize(
    "name",
    [
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "model",
        "n",
        "n_predict",
        "truncate_prompt_tokens",
        "min_tokens",
        "stop_token_ids",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "repeat_penalty",
        "top_k",
        "min_p",
        "tools",
        "response_format",
        "best_of",
        "max_new_tokens",
        "grammar",
        "chat_template",
    ],
)
def test_extra_fields_cannot_override_the_scenario(name: str) -> None:
    with pytest.raises(InputError, match="would override the scenario") as caught:
        dialect("openai-chat").render(sample("x"), model="m", stream=False, extra={name: 1})
    assert caught.value.value == name


@pytest.mark.parametrize(
    ("name", "prompt"),
    [("openai-chat", None), ("openai-completions", MESSAGES), ("openai-completions", None)],
)
def test_a_prompt_that_the_protocol_cannot_carry_is_refused(name: str, prompt: Any) -> None:
    with pytest.raises(InputError, match="sample 7"):
        dialect(name).render(sample(prompt), model="m", stream=False)


@pytest.mark.parametrize("extra", [{"stream_options": 3}, {"bias": float("nan")}, {"salt": "\ud800"}])
def test_what_has_no_canonical_form_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        dialect("openai-chat").render(sample("x"), model="m", stream=True, extra=extra)


def test_an_unknown_dialect_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=", ".join(DIALECTS)):
        dialect("openai")
    assert all(name == entry.name for name, entry in DIALECTS.items())
