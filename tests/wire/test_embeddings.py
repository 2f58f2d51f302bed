"""Embeddings: the vector as bytes, and what is none."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Response

API = dialect("openai-embeddings")
VECTOR = [0.25, -1.5, 3.0]
BYTES = struct.pack("<3f", *VECTOR)


def decoded(wire: Any, embedding: Any, **more: Any) -> Response:
    entry = {"object": "embedding", "index": 0, "embedding": embedding}
    usage = {"prompt_tokens": 5, "total_tokens": 5}
    body = {"object": "list", "model": "m", "data": [entry], "usage": usage, **more}
    return API.decode(wire.document(body), closed=False, stream=False)


@pytest.mark.parametrize("embedding", [VECTOR, base64.b64encode(BYTES).decode()], ids=["numbers", "base64"])
def test_the_vector_is_kept_as_float32(wire: Any, embedding: Any) -> None:
    response = decoded(wire, embedding)
    assert (response.data, response.failure, response.flags) == (BYTES, None, ())
    assert (response.input_tokens, response.input_token_source) == (5, "usage")
    assert (response.output_tokens, response.finish_reason, response.text) == (None, None, "")
    assert [e.kind for e in response.events] == ["finish"]


@pytest.mark.parametrize("embedding", [None, [], ["1"], [True], {}, "AAA=", "?", [1e39], ""])
def test_what_is_no_vector_is_malformed(wire: Any, embedding: Any) -> None:
    response = decoded(wire, embedding)
    assert (response.failure, response.data) == ("malformed", None)


def test_other_failures(wire: Any) -> None:
    assert decoded(wire, VECTOR, data=[]).failure == "empty"
    assert decoded(wire, VECTOR, error={"message": "no"}).failure == "engine_error"
    assert API.decode(wire.document({"object": "list"}), closed=False).failure == "malformed"
    (whole,) = wire.document({"data": [{"embedding": VECTOR}]})
    assert API.decode(wire.reads(whole.data[:-3]), closed=True).failure == "truncated"


def test_vectors_nobody_asked_for_are_flagged(wire: Any) -> None:
    response = decoded(wire, VECTOR, data=[{"embedding": VECTOR}, {"embedding": [1.0]}])
    assert (response.data, response.flags) == (BYTES, ("extra_choices",))


class TestRequest:
    def body(self, prompt: Any = None, ids: Any = None, data: Any = None) -> dict[str, Any]:
        sample = Sample(7, data or {}, prompt, Generation(max_output_tokens=8, stop=("x",)), token_ids=ids)
        body: dict[str, Any] = json.loads(API.render(sample, model="m", stream=False))
        return body

    def test_text_ids_or_the_only_column(self) -> None:
        assert self.body("hi") == {"model": "m", "input": "hi"}
        assert self.body(None, [3, 4])["input"] == [3, 4]
        assert self.body(data={"question": "why"})["input"] == "why"

    @pytest.mark.parametrize(
        ("prompt", "data"),
        [(None, {}), (None, {"a": "x", "b": "y"}), (None, {"a": 3}), ([{"role": "user"}], {})],
    )
    def test_anything_else_is_refused(self, prompt: Any, data: Any) -> None:
        with pytest.raises(InputError, match="sample 7"):
            self.body(prompt, data=data)

    def test_there_is_no_stream(self) -> None:
        with pytest.raises(InputError, match="has no stream"):
            API.render(Sample(0, {}, "x", Generation()), model="m", stream=True)
