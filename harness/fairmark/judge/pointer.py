"""JSON pointers (RFC 6901) into a record."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["MISSING", "resolve"]

MISSING: Final = object()
"""Stands for a value that is not there, which is not the same as null."""


def resolve(document: Any, pointer: str) -> Any:
    """The value at ``pointer``, or `MISSING`."""
    value = document
    for raw in pointer.split("/")[1:]:
        part = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value
