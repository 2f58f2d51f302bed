"""JSON as servers send it, and text put together from its pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import orjson

__all__ = ["NotJsonError", "join_text", "loads", "one_line"]

_EXCERPT_CHARACTERS: Final = 200


class NotJsonError(ValueError):
    """The bytes are not a JSON document in UTF-8."""


def loads(data: bytes) -> Any:
    """Parse one JSON document.

    Escaped halves of a surrogate pair are accepted: some servers cut their text between them, and
    `join_text` makes them whole again.

    Raises:
        NotJsonError: ``data`` is not JSON by RFC 8259, ``NaN`` and ``Infinity`` included.
    """
    try:
        return orjson.loads(data)
    except ValueError as error:
        if rb"\ud" not in data.lower():
            raise NotJsonError(str(error)) from error
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotJsonError(str(error)) from error


def join_text(pieces: Sequence[str]) -> str:
    """Put ``pieces`` together; surrogate halves that meet become their character, others U+FFFD."""
    text = "".join(pieces)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def one_line(text: str) -> str:
    """A short excerpt of ``text`` for a message: white space folded, at most 200 characters."""
    return " ".join(text[: 4 * _EXCERPT_CHARACTERS].split())[:_EXCERPT_CHARACTERS]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
