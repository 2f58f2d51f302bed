"""APIs that a template describes: what is sent, what is read, and which templates are refused."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Response
from fairmark.wire.template import read_template, template_sha256

DATA = Path(__file__).parent / "data"

# llama.cpp's own API.
NATIVE: dict[str, Any] = {
    "schema": "fairmark/http-template/1",
    "path": "/completion",
    "body": {
        "prompt": "{{prompt}}",
        "n_predict": "{{max_tokens}}",
        "temperature": "{{temperature}}",
        "seed": "{{seed}}",
        "stop": "{{stop}}",
        "stream": "{{stream}}",
    },
    "answer": {
        "text": "/content",
        "finish_reason": "/stop_type",
        "finish_reasons": {"eos": "stop", "word": "stop", "limit": "length", "none": None},
        "output_tokens": "/tokens_predicted",
        "input_tokens": "/tokens_evaluated",
    },
}
NATIVE["events"] = {**NATIVE["answer"], "token_ids": "/tokens", "error": "/error"}


def api(**changes: Any) -> Any:
    return dialect("json-template", {**NATIVE, **changes})


def streamed(wire: Any, *documents: Any, template: Any = None) -> Response:
    events = [wire.event(document) for document in documents]
    response: Response = (template or api()).decode(wire.stream(events), closed=False, stream=True)
    return response


def kinds(response: Response) -> list[str]:
    return [event.kind for event in response.events]


class TestAnswers:
    def test_a_real_stream_of_an_end_and_nothing_else(self, wire: Any) -> None:
        body = (DATA / "completion-llamacpp.sse").read_bytes()
        events = [event + b"\n\n" for event in body.split(b"\n\n") if event.strip()]
        response = api().decode(wire.stream(events), closed=False, stream=True)
        assert kinds(response) == ["content", "finish"]
        assert (response.token_ids, response.text, response.failure) == ([2], "", None)
        assert (response.input_tokens, response.finish_reason, response.flags) == (8, "stop", ())

    def test_texts_and_ids_add_up_and_the_last_count_stands(self, wire: Any) -> None:
        response = streamed(
            wire,
            {"content": "a", "tokens": [5], "tokens_predicted": 1, "stop_type": "none"},
            {"content": "bc", "tokens": [6, 7], "tokens_predicted": 3},
            {"content": "", "tokens": [], "tokens_predicted": 3, "stop_type": "limit"},
        )
        assert [(e.kind, e.n_tokens) for e in response.events] == [
            ("content", 1),
            ("content", 2),
            ("finish", None),
        ]
        assert (response.text, response.token_ids, response.output_tokens) == ("abc", [5, 6, 7], 3)
        assert (response.output_token_source, response.finish_reason) == ("ids", "length")

    def test_without_an_id_for_each_token_the_count_is_the_servers(self, wire: Any) -> None:
        parts = [{"content": "a", "tokens": [5]}, {"content": "b"}]
        response = streamed(wire, *parts, {"stop_type": "eos", "tokens_predicted": 2})
        assert (response.token_ids, response.output_tokens, response.output_token_source) == (
            None,
            2,
            "usage",
        )

    def test_nothing_after_the_end_is_read(self, wire: Any) -> None:
        response = streamed(wire, {"content": "a", "stop_type": "eos"}, {"content": "b"})
        assert (response.text, response.flags) == ("a", ("data_after_end_marker",))

    def test_an_end_marker_where_the_template_says_so(self, wire: Any) -> None:
        template = api(events={**NATIVE["events"], "end": "[DONE]"})
        documents = [{"content": "a", "stop_type": "eos"}, {"tokens_predicted": 1}]
        response = streamed(wire, *documents, template=template)
        assert (response.output_tokens, response.flags) == (1, ("no_end_marker",))

    def test_output_after_the_finish_reason_is_told(self, wire: Any) -> None:
        template = api(events={**NATIVE["events"], "end": "[DONE]"})
        for late in ({"content": "b"}, {"tokens": [1]}):
            response = streamed(wire, {"content": "a", "stop_type": "eos"}, late, template=template)
            assert response.flags == ("no_end_marker", "tokens_after_finish")

    @pytest.mark.parametrize(
        ("documents", "failure"),
        [
            ([{"content": "a"}], "truncated"),
            ([{"stop_type": "eos"}], "empty"),
            ([{"content": "a"}, {"error": {"message": "lost"}}], "engine_error"),
            ([{"content": "a"}, {"error": "lost"}], "engine_error"),
            ([{"content": 3}], "malformed"),
            ([{"content": "a", "tokens": ["x"]}], "malformed"),
            ([{"content": "a", "stop_type": True}], "malformed"),
            ([[]], "malformed"),
        ],
    )
    def test_failures(self, wire: Any, documents: list[Any], failure: str) -> None:
        assert streamed(wire, *documents).failure == failure

    def test_pointers_go_through_lists_and_escapes(self, wire: Any) -> None:
        answer = {"text": "/a~1b/0/t~0", "finish_reason": "/a~1b/1"}
        body = {"a/b": [{"t~": "hi"}, "stop"]}
        response = api(answer=answer).decode(wire.document(body), closed=False, stream=False)
        assert (response.text, response.finish_reason, response.failure) == ("hi", "stop", None)

    def test_data_is_kept_as_canonical_json(self, wire: Any) -> None:
        template = api(answer={"data": "/labels"})
        response = template.decode(
            wire.document({"labels": [{"b": 1.0, "a": "x"}]}), closed=False, stream=False
        )
        assert (response.data, response.failure) == (b'[{"a":"x","b":1}]', None)
        missing = template.decode(wire.document({"other": 1}), closed=False, stream=False)
        assert missing.failure == "malformed"


class TestRequests:
    def body(self, sample: Sample, *, stream: bool = False, model: str = "", **changes: Any) -> Any:
        return json.loads(api(**changes).render(sample, model=model, stream=stream))

    def test_placeholders_become_values_and_what_is_not_set_is_left_out(self) -> None:
        sample = Sample(7, {}, "né", Generation(max_output_tokens=8, stop=("x",)))
        assert self.body(sample, stream=True) == {
            "prompt": "né", "n_predict": 8, "temperature": 0, "stop": ["x"], "stream": True
        }  # fmt: skip

    def test_inside_a_longer_string_they_become_text(self) -> None:
        body = {"q": "[{{data.a}}] at {{temperature}}", "list": ["{{seed}}", "{{data}}", 1], "m": "{{model}}"}
        sample = Sample(7, {"a": "x"}, None, Generation())
        assert self.body(sample, model="m", body=body) == {
            "q": "[x] at 0.0", "list": [{"a": "x"}, 1], "m": "m"
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("changes", "sample", "stream", "words"),
        [
            ({}, Sample(7, {}, None, Generation()), False, "sample 7.*{{prompt}}"),
            ({}, Sample(7, {}, "x", Generation(top_p=0.5)), False, "generation.top_p"),
            ({"body": {"p": "{{prompt}}"}}, Sample(7, {}, "x", Generation(seed=0)), False, "generation.seed"),
            (
                {"body": {"p": "{{prompt}}"}},
                Sample(7, {}, "x", Generation(temperature=1)),
                False,
                "temperature",
            ),
            ({"body": {"m": "{{model}}"}}, Sample(7, {}, "x", Generation()), False, "asks for a model"),
            ({"body": {"p": "a {{data}}"}}, Sample(7, {}, "x", Generation()), False, "longer string"),
        ],
    )
    def test_what_does_not_fit_together_is_refused(
        self, changes: Any, sample: Sample, stream: bool, words: str
    ) -> None:
        with pytest.raises(InputError, match=words):
            self.body(sample, stream=stream, **changes)

    def test_a_stream_that_is_not_described_is_refused(self) -> None:
        template = {name: value for name, value in NATIVE.items() if name != "events"}
        with pytest.raises(InputError, match="describes no stream"):
            dialect("json-template", template).render(Sample(0, {}, "x", Generation()), model="", stream=True)

    def test_extra_fields_cannot_replace_what_the_template_has(self) -> None:
        sample = Sample(0, {}, "x", Generation())
        with pytest.raises(InputError, match="in the template already"):
            api().render(sample, model="", stream=False, extra={"prompt": "y"})
        assert b'"cache_prompt":false' in api().render(
            sample, model="", stream=False, extra={"cache_prompt": False}
        )
        with pytest.raises(InputError, match=r"override the scenario \(got 'top_k'\)"):
            api().render(sample, model="", stream=False, extra={"top_k": 1})


class TestTemplates:
    def test_the_example_of_the_documentation_is_one(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "http.md").read_text("utf-8")
        (block,) = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        body = json.loads(
            dialect("json-template", json.loads(block)).render(
                Sample(0, {}, "x", Generation(max_output_tokens=8)), model="", stream=True
            )
        )
        assert body == {"prompt": "x", "n_predict": 8, "temperature": 0, "stream": True}

    @pytest.mark.parametrize(
        ("path", "value", "field"),
        [
            ("schema", "fairmark/http-template/9", "schema"),
            ("path", "completion", "path"),
            ("more", 1, "template"),
            ("body.prompt", "{{promt}}", "body"),
            ("answer.text", "content", "answer.text"),
            ("answer.finish_reason", None, "answer"),
            ("events.end", "over", "events.end"),
        ],
    )
    def test_a_broken_one_is_refused_by_file_and_field(
        self, tmp_path: Path, path: str, value: Any, field: str
    ) -> None:
        document = copy.deepcopy(NATIVE)
        *parents, last = path.split(".")
        place = document
        for name in parents:
            place = place[name]
        place[last] = value
        if value is None:
            del place[last]
        file = tmp_path / "own.json"
        file.write_text(json.dumps(document))
        with pytest.raises(InputError, match=r"own\.json") as caught:
            read_template(file)
        assert caught.value.field == field

    @pytest.mark.parametrize("content", ["{", None])
    def test_a_file_that_cannot_be_read_is_one_clear_line(self, tmp_path: Path, content: str | None) -> None:
        file = tmp_path / "own.json"
        if content is not None:
            file.write_text(content)
        with pytest.raises(InputError, match="no readable JSON"):
            read_template(file)

    @pytest.mark.parametrize("levels", [63, 400, 100_000])
    @pytest.mark.parametrize("pair", ["[]", '{"a":}'], ids=["lists", "objects"])
    def test_nesting_beyond_reason_is_refused(self, tmp_path: Path, levels: int, pair: str) -> None:
        deep = pair[:-1] * levels + "0" + pair[-1] * levels
        file = tmp_path / "own.json"
        file.write_text(json.dumps({**NATIVE, "body": {"deep": 0}}).replace('"deep": 0', f'"deep": {deep}'))
        with pytest.raises(InputError, match="nested too deeply") as caught:
            read_template(file)
        assert (caught.value.source, caught.value.accepted) == (str(file), "at most 64 levels")

    def test_the_digest_is_that_of_the_content(self, tmp_path: Path) -> None:
        file = tmp_path / "own.json"
        file.write_text(json.dumps(NATIVE, indent=4))
        assert template_sha256(read_template(file)) == template_sha256(NATIVE)
        assert template_sha256({**NATIVE, "path": "/other"}) != template_sha256(NATIVE)

    def test_a_path_for_streams(self) -> None:
        template = api(events={**NATIVE["events"], "path": "/generate_stream"})
        assert (template.path_of(stream=True), template.path) == ("/generate_stream", "/completion")
