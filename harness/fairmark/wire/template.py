"""Any JSON-over-HTTP server as a dialect: a template says what to send, and where the answer is.

A template is data, a JSON document that keeps ``schemas/http-template.schema.json``: with it in the record,
every audit renders and decodes as the run did.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Generation
from fairmark.wire.openai_request import json_body, refuse_override
from fairmark.wire.openai_response import decode
from fairmark.wire.response import Read, Response
from fairmark.wire.template_answer import TemplateAnswer

__all__ = ["TEMPLATE", "JsonTemplate", "check_template", "read_template", "template_sha256"]

TEMPLATE: Final = "json-template"
"""The name of the dialect; the template itself comes beside it."""

_PLACEHOLDER: Final = re.compile(r"\{\{([^{}]*)\}\}")
_COLUMN: Final = "data."
_SETTINGS: Final[Mapping[str, str]] = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop",
    "ignore_eos": "ignore_eos",
}
"""For each placeholder the setting of generation that it stands for."""

_UNSET: Final = Generation()
_NAMES: Final = ("model", "prompt", "messages", "token_ids", "data", "stream", *_SETTINGS)
_LEFT_OUT: Final = object()
_MOST_LEVELS: Final = 64
"""Of lists and objects within each other; what reads and writes a template goes through them recursively."""


class JsonTemplate:
    """The dialect of one template.

    Raises:
        InputError: it breaks its schema.
    """

    name = TEMPLATE

    def __init__(self, document: Mapping[str, Any]) -> None:
        check_template(document, source="template")
        self._document = document
        self._used = frozenset(_placeholders(document["body"]))

    @property
    def path(self) -> str:
        """Where whole responses are asked for."""
        return self.path_of(stream=False)

    def path_of(self, *, stream: bool) -> str:
        """Where responses of a kind are asked for."""
        fields = self._document.get("events" if stream else "answer", {})
        path: str = fields.get("path", self._document["path"])
        return path

    def render(
        self,
        sample: Sample,
        *,
        model: str,
        stream: bool,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> bytes:
        """See `fairmark.wire.dialects.Dialect.render`.

        Raises:
            InputError: the template has no place for what the scenario asks, the sample has nothing for what
                the template asks, or ``extra`` names a field of the template or of the scenario.
        """
        self._refuse(sample, model, stream, extra)
        body = _filled(self._document["body"], _values(sample, model, stream), f"sample {sample.index}")
        return json_body({**body, **extra})

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """See `fairmark.wire.dialects.Dialect.decode`."""
        fields = self._document["events" if stream and "events" in self._document else "answer"]
        return decode(reads, closed=closed, stream=stream, answer=TemplateAnswer(fields))

    def _refuse(self, sample: Sample, model: str, stream: bool, extra: Mapping[str, Any]) -> None:
        if stream and "events" not in self._document:
            raise InputError("the template describes no stream", field="events", accepted="stream=false")
        if "model" in self._used and not model:
            raise InputError("the template asks for a model name", field="model", accepted="-o model=NAME")
        for name, setting in _SETTINGS.items():
            value = getattr(sample.generation, setting)
            if name not in self._used and value != getattr(_UNSET, setting):
                raise InputError(
                    "the template has no place for it",
                    field=f"generation.{setting}",
                    value=value,
                    accepted=f"a body with {{{{{name}}}}}",
                )
        taken = sorted(self._document["body"].keys() & extra.keys())
        if taken:
            raise InputError("is in the template already", field="extra", value=taken[0])
        refuse_override(extra)


def read_template(path: Path) -> dict[str, Any]:
    """The template in the file ``path``.

    Raises:
        InputError: it cannot be read, is not JSON, or breaks its schema.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"is no readable JSON: {error}", source=path, field="template") from error
    except RecursionError as error:
        raise _too_deep(str(path)) from error
    check_template(document, source=str(path))
    checked: dict[str, Any] = document
    return checked


def check_template(document: Any, *, source: str) -> None:
    """Check a template.

    Raises:
        InputError: it breaks its schema, is nested too deeply, or has a placeholder that nothing stands for.
    """
    level = [document]
    for _ in range(_MOST_LEVELS):
        level = [inner for value in level for inner in _held(value)]
    if level:
        raise _too_deep(source)
    errors = sorted(_validator().iter_errors(document), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        field = ".".join(map(str, errors[0].absolute_path)) or "template"
        raise InputError(
            errors[0].message, source=source, field=field, accepted="see schemas/http-template.schema.json"
        )
    for name in _placeholders(document["body"]):
        if name not in _NAMES and not name.startswith(_COLUMN):
            raise InputError(
                "is no placeholder",
                source=source,
                field="body",
                value=f"{{{{{name}}}}}",
                accepted=", ".join((*_NAMES, f"{_COLUMN}COLUMN")),
            )


def template_sha256(document: Mapping[str, Any]) -> str:
    """SHA-256 of a template's RFC 8785 JSON."""
    return hashlib.sha256(json_body(document)).hexdigest()


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    text = resources.files("fairmark.schemas").joinpath("http-template.schema.json").read_text("utf-8")
    return Draft202012Validator(json.loads(text))


def _held(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep(source: str) -> InputError:
    return InputError(
        "is nested too deeply", source=source, field="template", accepted=f"at most {_MOST_LEVELS} levels"
    )


def _placeholders(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _PLACEHOLDER.findall(value)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _placeholders(each)
    elif isinstance(value, list):
        for each in value:
            yield from _placeholders(each)


def _values(sample: Sample, model: str, stream: bool) -> dict[str, Any]:
    """What every placeholder stands for; None is not set."""
    prompt, generation = sample.prompt, sample.generation
    messages = None if isinstance(prompt, str) or prompt is None else [dict(each) for each in prompt]
    return {
        "model": model,
        "stream": stream,
        "prompt": prompt if messages is None else None,
        "messages": messages,
        "token_ids": None if sample.token_ids is None else list(sample.token_ids),
        "data": dict(sample.data),
        **{f"{_COLUMN}{column}": value for column, value in sample.data.items()},
        **{name: getattr(generation, setting) for name, setting in _SETTINGS.items()},
        "stop": list(generation.stop) or None,
        "ignore_eos": generation.ignore_eos or None,
    }


def _filled(value: Any, values: Mapping[str, Any], field: str) -> Any:
    """``value`` with its placeholders replaced; errors name ``field``."""
    if isinstance(value, str):
        return _filled_text(value, values, field)
    if isinstance(value, Mapping):
        filled = {key: _filled(each, values, field) for key, each in value.items()}
        return {key: each for key, each in filled.items() if each is not _LEFT_OUT}
    if isinstance(value, list):
        return [each for each in (_filled(each, values, field) for each in value) if each is not _LEFT_OUT]
    return value


def _filled_text(text: str, values: Mapping[str, Any], field: str) -> Any:
    whole = _PLACEHOLDER.fullmatch(text)
    if whole is None:
        return _PLACEHOLDER.sub(
            lambda found: _as_text(_value(found[1], values, field), found[1], field), text
        )
    value = _value(whole[1], values, field)
    return _LEFT_OUT if value is None else value


def _value(name: str, values: Mapping[str, Any], field: str) -> Any:
    value = values.get(name)
    if value is None and name not in _SETTINGS:
        raise InputError(f"has nothing for {{{{{name}}}}} of the template", field=field)
    return value


def _as_text(value: Any, name: str, field: str) -> str:
    if isinstance(value, str):
        return value
    if type(value) in (int, float):
        return json.dumps(value)
    raise InputError(
        f"{{{{{name}}}}} stands inside a longer string and is neither text nor a number",
        field=field,
    )
