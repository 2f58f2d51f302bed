"""A SUT's ``Options`` dataclass as command-line options: parsing, checking, documenting, recording.

A field's help text is given with ``typing.Annotated``::

    @dataclass(frozen=True)
    class Options:
        model: Annotated[str, "name or path of the model"]
        batch: Annotated[int, "samples per forward pass"] = 8
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fairmark.errors import InputError

_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}

__all__ = ["Option", "describe_options", "options_record", "parse_options", "unreadable_options"]


@dataclass(frozen=True, slots=True)
class Option:
    """One option, for documentation."""

    name: str
    type: str
    required: bool
    default: Any
    help: str


def describe_options(cls: type[Any]) -> list[Option]:
    """The options that an ``Options`` dataclass declares, in order."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return [
        Option(
            name=field.name,
            type=_spell(_strip(hints[field.name])),
            required=_required(field),
            default=None if _required(field) else _default(field),
            help=_help(hints[field.name]),
        )
        for field in dataclasses.fields(cls)
    ]


def unreadable_options(cls: type[Any]) -> dict[str, str]:
    """The options whose type cannot be given as ``-o name=value``, with that type."""
    hints = {n: _strip(h) for n, h in typing.get_type_hints(cls, include_extras=True).items()}
    fields = (field.name for field in dataclasses.fields(cls))
    return {n: _spell(hints[n]) for n in fields if not all(map(_readable, _alternatives(hints[n])))}


def parse_options(cls: type[Any], assignments: Sequence[str], *, sut: str) -> Any:
    """Build an ``Options`` instance from ``name=value`` assignments.

    Raises:
        InputError: an unknown or repeated name, a value of the wrong type, a missing required option, or a
            combination that the dataclass itself refuses with `ValueError`.
    """
    known = {option.name: option for option in describe_options(cls)}
    hints = typing.get_type_hints(cls, include_extras=True)
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, separator, text = assignment.partition("=")
        if not separator:
            raise InputError("cannot be read", source="-o", value=assignment, accepted="NAME=VALUE")
        if name not in known:
            accepted = ", ".join(known) or "no options"
            raise InputError(f"is not an option of {sut}", source="-o", field=name, accepted=accepted)
        if name in values:
            raise InputError("is given twice", source="-o", field=name)
        values[name] = _parse(text, _strip(hints[name]), name)
    for option in known.values():
        if option.required and option.name not in values:
            raise InputError(
                f"is required by {sut}",
                source="-o",
                field=option.name,
                accepted=f"{option.type}: {option.help}",
            )
    try:
        return cls(**values)
    except ValueError as error:
        raise InputError(str(error), source="-o") from error


def options_record(options: Any) -> dict[str, Any]:
    """The options as plain JSON values, for the run record."""
    record: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(options), default=str))
    return record


def _strip(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _help(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return next((note for note in get_args(hint)[1:] if isinstance(note, str)), "")
    return ""


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    factory = field.default_factory
    return factory() if factory is not dataclasses.MISSING else None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return tuple(a for a in get_args(hint) if a is not type(None))
    return (hint,)


def _spell(hint: Any) -> str:
    def one(kind: Any) -> str:
        if get_origin(kind) is Literal:
            return " | ".join(map(str, get_args(kind)))
        if get_origin(kind) is tuple:
            return f"{one(get_args(kind)[0])},..."
        if isinstance(get_origin(kind) or kind, type) and issubclass(get_origin(kind) or kind, Mapping):
            held = _held(kind)
            return "JSON object" if held is Any else f"JSON object of {one(held)}"
        return str(getattr(kind, "__name__", kind))

    return " | ".join(one(kind) for kind in _alternatives(hint))


def _readable(kind: Any) -> bool:
    """Whether `_parse_one` knows ``kind``."""
    origin = get_origin(kind)
    if origin is tuple:
        return _readable(get_args(kind)[0])
    is_mapping = isinstance(origin or kind, type) and issubclass(origin or kind, Mapping)
    if is_mapping and _held(kind) not in (Any, bool, int, float, str):
        return False
    return origin is Literal or is_mapping or kind in (bool, int, float, str, Path)


def _parse(text: str, hint: Any, name: str) -> Any:
    for kind in _alternatives(hint):
        try:
            return _parse_one(text, kind)
        except ValueError:
            continue
    raise InputError("has the wrong type", source="-o", field=name, value=text, accepted=_spell(hint))


def _parse_one(text: str, kind: Any) -> Any:
    if get_origin(kind) is Literal:
        match = [choice for choice in get_args(kind) if str(choice) == text]
        if not match:
            raise ValueError(text)
        return match[0]
    if get_origin(kind) is tuple:
        return tuple(_parse_one(part, get_args(kind)[0]) for part in text.split(",") if part)
    if isinstance(get_origin(kind) or kind, type) and issubclass(get_origin(kind) or kind, Mapping):
        value = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(value, dict) or not all(_is(each, _held(kind)) for each in value.values()):
            raise ValueError(text)
        return value
    if kind is bool:
        if text.lower() not in _BOOLEANS:
            raise ValueError(text)
        return _BOOLEANS[text.lower()]
    if kind in (int, float, str, Path):
        return kind(text)
    raise TypeError(f"options of type {kind!r} are not supported")


def _held(mapping: Any) -> Any:
    """The type of the values of a mapping type."""
    arguments = get_args(mapping)
    return arguments[1] if arguments else Any


def _is(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of a type that `_readable` takes in a mapping."""
    if kind is Any:
        return True
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind


def _refuse_constant(name: str) -> Any:
    """NaN and the infinities are no JSON, and could not be recorded."""
    raise ValueError(name)
