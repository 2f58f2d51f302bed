"""Schema violations as one sentence: what is wrong, where, and what would be accepted."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from fairmark.errors import InputError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

__all__ = ["Locate", "Place", "explain"]

Place = tuple[str, int | None]
"""Where a value was written: the file or option, and the line when it is known."""

Locate = Callable[[Sequence[str | int]], Place]
"""Finds the `Place` of a field, given as a path of keys."""

Path = Sequence[str | int]

_TYPES = {
    "object": "a table",
    "array": "an array",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}

_LIMITS = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))


def explain(error: ValidationError, locate: Locate) -> InputError:
    """Turn one JSON Schema violation into an `InputError`."""
    error = _closest(error)
    path: list[str | int] = list(error.absolute_path)
    schema = cast(dict[str, Any], error.schema)
    instance: Any = error.instance
    if error.validator == "additionalProperties":
        return _unknown_field(schema, instance, path, locate)
    if error.validator == "required":
        missing = next(name for name in schema["required"] if name not in instance)
        source, line = locate(path)
        return InputError(
            "is missing",
            source=source,
            line=line if path else None,
            field=_dotted([*path, missing]),
            accepted=_describe(schema["properties"][missing]),
        )
    source, line = locate(path)
    return InputError(
        "cannot be accepted",
        source=source,
        line=line,
        field=_dotted(path),
        value=instance,
        accepted=_describe(schema),
    )


def _closest(error: ValidationError) -> ValidationError:
    """For a table that fits none of several forms: what is wrong with it as a table."""
    if error.validator != "oneOf" or not isinstance(error.instance, dict):
        return error
    for inner in error.context or ():
        if inner.validator not in ("type", "enum", "const"):
            return _closest(inner)
    return error


def _unknown_field(
    schema: dict[str, Any], instance: dict[str, Any], path: list[str | int], locate: Locate
) -> InputError:
    known = list(schema.get("properties", {}))
    name = next(key for key in instance if key not in known)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    source, line = locate([*path, name])
    return InputError(
        "is not a field of a scenario",
        source=source,
        line=line,
        field=_dotted([*path, name]),
        accepted=f"{hint}the fields here are {', '.join(known)}",
    )


def _dotted(path: Path) -> str:
    return ".".join(str(part) for part in path) or "(file)"


def _describe(schema: dict[str, Any]) -> str:
    """What the schema accepts, in words."""
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if schema.get("$ref", "").endswith("/sha256") or schema.get("pattern") == "^[0-9a-f]{64}$":
        return "64 lower-case hexadecimal digits"
    if schema.get("$ref", "").endswith("/seed") or schema.get("maximum") == 2**64 - 1:
        return "an integer from 0 to 2^64 - 1"
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(_describe(option) for option in schema["oneOf"]))
    return _describe_type(schema)


def _describe_type(schema: dict[str, Any]) -> str:
    words = _TYPES.get(schema.get("type", ""), "another value")
    if schema.get("minLength") or schema.get("minItems"):
        words = words.replace("a string", "a non-empty string").replace("an array", "a non-empty array")
    if "pattern" in schema:
        words += f" matching {schema['pattern']}"
    if words == "a table" and "properties" in schema:
        words += " with " + ", ".join(schema.get("required", schema["properties"]))
    limits = [f"{sign} {schema[key]}" for key, sign in _LIMITS if key in schema]
    return " ".join([words, " and ".join(limits)]).strip()
