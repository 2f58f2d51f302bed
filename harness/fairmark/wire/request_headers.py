"""Which headers a request can carry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from fairmark.errors import InputError

__all__ = ["check_headers"]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DRIVERS_OWN: Final = frozenset(
    {"host", "content-length", "accept-encoding", "transfer-encoding", "connection"}
)


def check_headers(headers: Mapping[str, str], *, field: str = "headers") -> Mapping[str, str]:
    """``headers``, which can be sent.

    Raises:
        InputError: one cannot, or is the driver's to set. The value is never shown: it may be a secret.
    """
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _DRIVERS_OWN:
            raise InputError("is not a header that can be set", field=field, value=name)
        if not value.isprintable() or not value.isascii():
            raise InputError(f"the value of {name} has characters that a header cannot carry", field=field)
    return headers
