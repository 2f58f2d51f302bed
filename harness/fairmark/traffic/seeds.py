"""Which seeds a run uses: the scenario's own, or fresh ones derived from them."""

from __future__ import annotations

import hashlib
import json

from fairmark.scenario.model import Seeds

__all__ = ["derive_seed", "effective_seeds"]


def effective_seeds(
    base: Seeds, *, repetition: int = 0, nonce: str | None = None, label: str | None = None
) -> Seeds:
    """The seeds of one repetition, challenge or phase.

    Repetition 0 without nonce and label is the base itself, the only one that MLPerf accepts.
    """
    if repetition == 0 and nonce is None and label is None:
        return base
    return Seeds(
        qsl=derive_seed("qsl", base.qsl, repetition, nonce, label),
        sample_index=derive_seed("sample_index", base.sample_index, repetition, nonce, label),
        schedule=derive_seed("schedule", base.schedule, repetition, nonce, label),
    )


def derive_seed(name: str, base: int, repetition: int, nonce: str | None, label: str | None) -> int:
    """A fresh 64-bit seed.

    The first eight bytes, big-endian, of the SHA-256 of the compact JSON array
    ``["fairmark/seed/1", name, decimal base, repetition, nonce, label]`` in ASCII.
    """
    message = json.dumps(
        ["fairmark/seed/1", name, str(base), repetition, nonce, label], separators=(",", ":")
    )
    return int.from_bytes(hashlib.sha256(message.encode("ascii")).digest()[:8], "big")
