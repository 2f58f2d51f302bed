"""The scenario digest: what must be equal for two runs to be comparable."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

__all__ = ["scenario_digest"]


def scenario_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the RFC 8785 JSON of a resolved scenario document without its ``settings``.

    Equal digests mean the same experiment. They do not mean the same sample sequence: as in LoadGen, the
    order depends on the effective minimum query count and, in closed loops, on the expected rate.
    """
    import rfc8785

    identity = {key: value for key, value in document.items() if key != "settings"}
    return hashlib.sha256(rfc8785.dumps(identity)).hexdigest()
