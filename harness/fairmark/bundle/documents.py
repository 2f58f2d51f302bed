"""JSON documents of a bundle: strict reading, one way of writing, and the schemas they keep."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, NoReturn

__all__ = ["parse_json", "render_json", "schema_violation"]


def parse_json(data: bytes) -> Any:
    """Parse strict JSON: UTF-8, no NaN or Infinity, no key twice in one object.

    Raises:
        ValueError: ``data`` is something else; the message is one clause.
    """
    return json.loads(
        data.decode("utf-8"), parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates
    )


def render_json(document: Any) -> bytes:
    """The only way bundles spell JSON: sorted keys, two spaces, UTF-8, one final line feed."""
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def schema_violation(document: Any, schema: str) -> tuple[str, str] | None:
    """The first way in which ``document`` breaks the shipped schema ``schema`` (its file name).

    Returns:
        The dotted field and a clause that says what is wrong, or None.
    """
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(_schema(schema)).iter_errors(document))
    if error is None:
        return None
    return ".".join(str(part) for part in error.absolute_path) or "(document)", error.message


@cache
def _schema(name: str) -> Any:
    return json.loads(resources.files("fairmark.schemas").joinpath(name).read_text(encoding="utf-8"))


def _refuse_constant(spelling: str) -> NoReturn:
    raise ValueError(f"{spelling} is not JSON")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} appears twice in one object")
    return found
