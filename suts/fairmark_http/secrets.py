"""What by its name holds a secret, and so must not be given where it is recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["carries_secret", "secret_fields"]

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_SECRET: Final = re.compile(
    r".*auth(?!ors?$).*|bearer|.*(token|key)s?|.*(secret|passw|passphrase|cookie|session|credential).*",
    re.IGNORECASE,
)
_PLACEHOLDER: Final = re.compile(r"\{\{[^{}]*\}\}")
_HARMLESS: Final = frozenset({"prompt_cache_key"})


def carries_secret(name: str) -> bool:
    """Whether a part of ``name`` (of ``X-Api-Key``, ``api_key``, ``apiKey``) is a word for a secret."""
    return name not in _HARMLESS and any(_SECRET.fullmatch(word) for word in _WORD.findall(name))


def secret_fields(value: Any) -> Iterator[str]:
    """Names of fields anywhere in ``value`` that by name and type hold a secret: text, and no placeholder.

    ``return_token_ids = true`` holds none.
    """
    if isinstance(value, Mapping):
        for name, inner in value.items():
            texts = inner if isinstance(inner, list) else [inner]
            if carries_secret(name) and any(
                isinstance(t, str) and not _PLACEHOLDER.fullmatch(t) for t in texts
            ):
                yield name
            yield from secret_fields(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from secret_fields(inner)
