"""Request bodies of the OpenAI HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import rfc8785

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation

__all__ = [
    "chat_prompt",
    "completion_prompt",
    "embeddings_body",
    "json_body",
    "refuse_override",
    "request_body",
    "responses_body",
]

# What the scenario decides must not be changed from the side of the system under test, under any server's
# name for it: OpenAI's, vLLM's, SGLang's, TGI's or llama.cpp's. The rule `extra-known` has the harmless.
_MODEL_AND_PROMPT: Final = """
    add_generation_prompt chat_template continue_final_message documents echo input input_ids
    instructions lora_adapters lora_path messages model previous_response_id prompt prompt_embeds suffix
    text_input truncate_prompt_tokens truncation
"""
_LENGTH_AND_END: Final = """
    ignore_eos include_stop_str_in_output max_completion_tokens max_length max_new_tokens
    max_output_tokens max_tokens min_length min_new_tokens min_tokens n_indent n_keep n_predict
    num_predict stop stop_regex stop_sequences stop_token_ids t_max_predict_ms
"""
_SAMPLING: Final = """
    allowed_token_ids bad_words do_sample dry_allowed_length dry_base dry_multiplier dry_penalty_last_n
    dry_sequence_breakers dynatemp_exponent dynatemp_range early_stopping frequency_penalty
    length_penalty logit_bias min_keep min_p mirostat mirostat_eta mirostat_tau no_repeat_ngram_size
    penalties presence_penalty repeat_last_n repeat_penalty repetition_penalty samplers seed temperature
    thinking_budget_tokens top_k top_n_sigma top_p typical_p use_beam_search xtc_probability
    xtc_threshold
"""
_FORM_AND_NUMBER: Final = """
    background best_of ebnf function_call functions grammar guided_choice guided_decoding_backend
    guided_grammar guided_json guided_regex guided_whitespace_pattern json_schema n n_cmpl
    parallel_tool_calls prediction regex response_format sampling_params stream structural_tag
    structured_outputs tool_choice tools
"""
_DECIDED: Final = frozenset(f"{_MODEL_AND_PROMPT} {_LENGTH_AND_END} {_SAMPLING} {_FORM_AND_NUMBER}".split())


def chat_prompt(sample: Sample) -> dict[str, Any]:
    """The prompt fields of ``/v1/chat/completions``; a text prompt becomes one user message.

    Raises:
        InputError: the sample has neither messages nor text.
    """
    if sample.prompt is None:
        raise InputError(
            "a chat request needs messages or text", field=f"sample {sample.index}", accepted="messages, text"
        )
    if isinstance(sample.prompt, str):
        return {"messages": [{"role": "user", "content": sample.prompt}]}
    return {"messages": [dict(message) for message in sample.prompt]}


def completion_prompt(sample: Sample) -> dict[str, Any]:
    """The prompt field of ``/v1/completions``: the text, or token ids where there is no text.

    Raises:
        InputError: the sample has neither.
    """
    if isinstance(sample.prompt, str):
        return {"prompt": sample.prompt}
    if sample.prompt is None and sample.token_ids is not None:
        return {"prompt": list(sample.token_ids)}
    raise InputError(
        "a completion request needs text or token ids, not messages",
        field=f"sample {sample.index}",
        accepted="text, token_ids",
    )


def request_body(
    prompt: Mapping[str, Any], generation: Generation, *, model: str, stream: bool, extra: Mapping[str, Any]
) -> bytes:
    """The whole body as RFC 8785 JSON.

    Usage is always asked for in streams: without it the number of tokens would be a guess.

    Raises:
        InputError: ``extra`` names a field that the scenario decides, or a value has no RFC 8785 form.
    """
    refuse_override(extra)
    options = extra.get("stream_options", {})
    if not isinstance(options, Mapping):
        raise InputError("is not an object", field="extra.stream_options", value=options)
    body = {"model": model, "stream": stream, **prompt, **_generation(generation), **extra}
    if stream:
        body["stream_options"] = {**options, "include_usage": True}
    return json_body(body)


def responses_body(sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any]) -> bytes:
    """The body for ``/v1/responses``, which tells the usage unasked.

    Raises:
        InputError: the sample has neither messages nor text, or the scenario asks for what this API
            has no field for.
    """
    refuse_override(extra)
    generation = sample.generation
    asked = {
        "stop": generation.stop or None,
        "seed": generation.seed,
        "ignore_eos": generation.ignore_eos or None,
    }
    for name, value in asked.items():
        if value is not None:
            raise InputError(
                "the Responses API has no field for it",
                field=f"generation.{name}",
                value=value,
                accepted="api = chat or completions",
            )
    if sample.prompt is None:
        raise InputError(
            "a response needs messages or text", field=f"sample {sample.index}", accepted="messages, text"
        )
    prompt = sample.prompt
    optional = {"max_output_tokens": generation.max_output_tokens, "top_p": generation.top_p}
    return json_body(
        {
            "model": model,
            "stream": stream,
            "input": prompt if isinstance(prompt, str) else [dict(message) for message in prompt],
            "temperature": generation.temperature,
            **{name: value for name, value in optional.items() if value is not None},
            **extra,
        }
    )


def embeddings_body(sample: Sample, *, model: str, extra: Mapping[str, Any]) -> bytes:
    """The body for ``/v1/embeddings``: the text, the token ids, or the text in the only column of the data.

    Nothing is generated, so that the settings of generation have no place in it.

    Raises:
        InputError: the sample has none of these.
    """
    refuse_override(extra)
    text: Any = sample.prompt if isinstance(sample.prompt, str) else sample.token_ids
    if text is None and len(sample.data) == 1:
        (text,) = sample.data.values()
    if not isinstance(text, str) and (text is None or sample.token_ids is None):
        raise InputError(
            "an embedding is of a text or of token ids",
            field=f"sample {sample.index}",
            accepted="text, token_ids, or data with one column that holds a string",
        )
    return json_body({"model": model, "input": text if isinstance(text, str) else list(text), **extra})


def refuse_override(extra: Mapping[str, Any]) -> None:
    """Refuse extra fields that would change what the scenario decides.

    Raises:
        InputError: there is one.
    """
    taken = sorted(_DECIDED & extra.keys())
    if taken:
        raise InputError("an extra request field would override the scenario", field="extra", value=taken[0])


def json_body(body: Any) -> bytes:
    """``body`` as RFC 8785 JSON.

    Raises:
        InputError: a value has no RFC 8785 form.
    """
    try:
        return rfc8785.dumps(body)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InputError(f"the request cannot be written as JSON: {error}", field="request") from error


def _generation(generation: Generation) -> dict[str, Any]:
    optional = {
        "max_tokens": generation.max_output_tokens,
        "top_p": generation.top_p,
        "seed": generation.seed,
        "stop": list(generation.stop) or None,
        # Not in OpenAI's API, but in vLLM's, SGLang's and llama.cpp's.
        "ignore_eos": generation.ignore_eos or None,
    }
    given = {name: value for name, value in optional.items() if value is not None}
    return {"temperature": generation.temperature, **given}
