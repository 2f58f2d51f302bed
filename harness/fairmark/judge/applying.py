"""Does a rule apply to a record: yes, no, or not to be told because what decides it is not there.

JSON Schema knows two answers, and an absent value gives either of them, depending on how the schema is
written. A number that was left out must not make a rule go away, so `applies` is read with three.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeAlias

from fairmark.judge.pointer import MISSING, resolve

__all__ = ["Answer", "Satisfies", "applying", "mentioned"]

Answer: TypeAlias = bool | str
"""Whether a rule applies, or the pointer of the absent value that decides it."""

Satisfies: TypeAlias = Callable[[Any, Mapping[str, Any]], bool]

_OBJECT: Final = frozenset({"required", "properties"})


def applying(
    schema: Mapping[str, Any],
    record: Mapping[str, Any],
    satisfies: Satisfies,
    optional: Collection[str] = (),
) -> Answer:
    """Whether ``schema``, over the whole record, holds.

    ``allOf``, ``anyOf`` and ``not`` at the top are combined as in Kleene's three-valued logic; anything else
    is asked only if every value that it mentions is there. Where the record explains why one is not, the
    schema does not hold.

    Args:
        optional: pointers of values that may be left out, so that their absence is an answer.
    """

    def ask(inner: Mapping[str, Any]) -> Answer:
        return applying(inner, record, satisfies, optional)

    if schema.keys() == {"allOf"}:
        return _all([ask(each) for each in schema["allOf"]])
    if schema.keys() == {"anyOf"}:
        return _not(_all([_not(ask(each)) for each in schema["anyOf"]]))
    if schema.keys() == {"not"}:
        return _not(ask(schema["not"]))
    for pointer in mentioned(schema):
        if pointer not in optional and resolve(record, pointer) is MISSING:
            return False if _explained(record, pointer) else pointer
    return satisfies(record, schema)


def _all(answers: list[Answer]) -> Answer:
    if False in answers:
        return False
    return next((answer for answer in answers if answer is not True), True)


def _not(answer: Answer) -> Answer:
    return answer if isinstance(answer, str) else not answer


def mentioned(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """JSON pointers of the values that a schema asks about by nothing but names of properties."""
    if schema.keys() & {"allOf", "anyOf", "oneOf"}:
        for keyword in ("allOf", "anyOf", "oneOf"):
            for each in schema.get(keyword, ()):
                yield from mentioned(each, at)
    if "not" in schema:
        yield from mentioned(schema["not"], at)
    properties = schema.get("properties", {})
    for name in dict.fromkeys((*schema.get("required", ()), *properties)):
        inner = properties.get(name, {})
        if inner.keys() & (_OBJECT | {"allOf", "anyOf", "oneOf", "not"}):
            yield from mentioned(inner, f"{at}/{name}")
        else:
            yield f"{at}/{name}"


def _explained(record: Mapping[str, Any], pointer: str) -> bool:
    """Whether the record says that what holds ``pointer`` does not exist: it is null, or undefined."""
    while pointer := pointer.rpartition("/")[0]:
        holder = resolve(record, pointer)
        if holder is not MISSING:
            return holder is None or (isinstance(holder, Mapping) and "undefined" in holder)
    return False
