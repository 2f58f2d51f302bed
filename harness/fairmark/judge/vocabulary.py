"""JSON Schema 2020-12 with three keywords of our own, which compare a value with another in the record.

    {"atMost":  {"pointer": "/a/b", "scale": 3}}     value <= 3 * record/a/b
    {"atLeast": {"pointer": "/a/b"}}                 value >= record/a/b
    {"sameAs":  {"pointer": "/a/b"}}                 value == record/a/b

They fail, rather than pass, where either side is missing or is not a number (for sameAs: not a scalar).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from fairmark.judge.pointer import MISSING, resolve

__all__ = ["COMPARISONS", "KEYWORDS", "checker", "comparisons_in", "is_number", "unknown_keywords"]

COMPARISONS: Final = ("atMost", "atLeast", "sameAs")

_SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "dependentSchemas")
_SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS: Final = (
    "additionalProperties",
    "propertyNames",
    "items",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "unevaluatedProperties",
    "unevaluatedItems",
)
_ASSERTIONS: Final = (
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
)
_ANNOTATIONS: Final = ("$comment", "$ref", "title", "description", "default", "examples")

KEYWORDS: Final = frozenset(
    (*COMPARISONS, *_SCHEMA_MAPS, *_SCHEMA_LISTS, *_SCHEMAS, *_ASSERTIONS, *_ANNOTATIONS)
)
"""All that a rule may use. JSON Schema ignores what it does not know, so a misspelt limit would pass."""


def is_number(value: object) -> bool:
    """A JSON number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _subschemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """``schema`` and every schema inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword, value in schema.items():
        if keyword in _SCHEMA_MAPS:
            inner = value.values()
        elif keyword in _SCHEMA_LISTS:
            inner = value
        else:
            inner = (value,) if keyword in _SCHEMAS else ()
        for each in inner:
            yield from _subschemas(each)


def unknown_keywords(schema: Any) -> set[str]:
    """Keywords anywhere in ``schema`` that no rule may use."""
    return {keyword for each in _subschemas(schema) for keyword in each} - KEYWORDS


def comparisons_in(schema: Any) -> list[Any]:
    """The value, ``{pointer, scale}``, of every comparison keyword in ``schema``."""
    return [each[keyword] for each in _subschemas(schema) for keyword in COMPARISONS if keyword in each]


def _holds(keyword: str, value: Any, other: Any, scale: float) -> bool:
    if keyword == "sameAs" and isinstance(value, str):
        return bool(value == other)
    if not is_number(value) or not is_number(other):
        return False
    limit = other * scale
    return bool({"atMost": value <= limit, "atLeast": value >= limit, "sameAs": value == limit}[keyword])


def checker(record: Mapping[str, Any]) -> Callable[[Any, Mapping[str, Any]], bool]:
    """A function that says whether a value, a part of ``record``, satisfies a schema."""
    from jsonschema import Draft202012Validator, ValidationError, validators

    def comparison(keyword: str) -> Any:
        def check(_validator: Any, spec: Mapping[str, Any], found: Any, _schema: Any) -> Iterator[Any]:
            other = resolve(record, spec["pointer"])
            if other is MISSING or not _holds(keyword, found, other, spec.get("scale", 1)):
                yield ValidationError(f"{found!r} does not hold {keyword} {spec['pointer']}")

        return check

    extend: Any = validators.extend
    validator = extend(Draft202012Validator, {keyword: comparison(keyword) for keyword in COMPARISONS})
    return lambda value, schema: bool(validator(schema).is_valid(value))
