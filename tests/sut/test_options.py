"""Options dataclasses as command-line options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.sut.options import describe_options, options_record, parse_options


@dataclass(frozen=True)
class Everything:
    model: Annotated[str, "name or path of the model"]
    batch: Annotated[int, "samples per forward pass"] = 8
    rate: float | None = None
    stream: bool = True
    api: Literal["chat", "completions"] = "chat"
    tags: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    anything: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError("batch must be at least 1")


def parse(*assignments: str) -> Any:
    return parse_options(Everything, assignments, sut="my-engine")


def test_every_supported_type_is_read() -> None:
    options = parse(
        "model=a=b", "batch=2", "rate=1e3", "stream=no", "api=completions", "tags=x,y", 'headers={"A": "1"}'
    )
    assert options == Everything("a=b", 2, 1000.0, False, "completions", ("x", "y"), {"A": "1"})


def test_defaults_hold_when_nothing_is_given() -> None:
    assert parse("model=m") == Everything("m")


@given(st.integers(min_value=1), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_numbers_and_switches_survive_a_round_trip(batch: int, rate: float, stream: bool) -> None:
    assert parse("model=m", f"batch={batch}", f"rate={rate!r}", f"stream={stream}") == Everything(
        "m", batch, rate, stream
    )


@pytest.mark.parametrize(
    ("assignments", "field_name", "words"),
    [
        (["batch=2"], "model", "is required by my-engine"),
        (
            ["model=m", "speed=3"],
            "speed",
            "accepted: model, batch, rate, stream, api, tags, headers, limits, anything",
        ),
        (["model=m", "model=n"], "model", "is given twice"),
        (["model=m", "batch=two"], "batch", "accepted: int"),
        (["model=m", "stream=maybe"], "stream", "accepted: bool"),
        (["model=m", "api=grpc"], "api", "accepted: chat | completions"),
        (["model=m", "headers=[1]"], "headers", "accepted: JSON object of str"),
        (["model=m", 'headers={"A": 1}'], "headers", "accepted: JSON object of str"),
        (["model=m", 'headers={"A": null}'], "headers", "accepted: JSON object of str"),
        (["model=m", 'limits={"A": true}'], "limits", "accepted: JSON object of int"),
        (["model=m", 'anything={"A": NaN}'], "anything", "accepted: JSON object"),
        (["model=m", "batch=0"], None, "batch must be at least 1"),
        (["model"], None, "accepted: NAME=VALUE"),
    ],
)
def test_a_wrong_option_is_refused_in_one_clear_line(
    assignments: list[str], field_name: str | None, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse(*assignments)
    assert caught.value.field == field_name
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_options_document_themselves() -> None:
    described = {o.name: o for o in describe_options(Everything)}
    assert described["model"].required
    assert described["model"].help == "name or path of the model"
    assert (described["batch"].type, described["batch"].default) == ("int", 8)
    assert described["api"].type == "chat | completions"
    assert described["headers"].default == {}


def test_the_record_is_plain_json() -> None:
    assert options_record(parse("model=m", "tags=x,y")) == {
        "model": "m",
        "batch": 8,
        "rate": None,
        "stream": True,
        "api": "chat",
        "tags": ["x", "y"],
        "headers": {},
        "limits": {},
        "anything": {},
    }
