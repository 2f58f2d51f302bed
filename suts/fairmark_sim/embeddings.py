"""Vectors of the simulated model: the same text has always the same one."""

from __future__ import annotations

import hashlib

import numpy as np

from fairmark_sim.script import Script, finished_json

__all__ = ["DIMENSIONS", "embedding_script", "vector_of"]

DIMENSIONS = 8


def vector_of(prompt: str) -> list[float]:
    """A vector of length 1, drawn from the digest of ``prompt``; its numbers are exact in float32."""
    digest = hashlib.shake_128(prompt.encode("utf-8", "surrogatepass")).digest(4 * DIMENSIONS)
    drawn = np.frombuffer(digest, dtype="<u4").astype(np.float64) + 1.0
    unit: list[float] = (drawn / np.linalg.norm(drawn)).astype(np.float32).astype(np.float64).tolist()
    return unit


def embedding_script(prompt: str, model: str, at_ns: int, faults: frozenset[str]) -> Script:
    """The response that holds the vector of ``prompt``."""
    vector = {"object": "embedding", "index": 0, "embedding": vector_of(prompt)}
    n_tokens = len(prompt.split())
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    document = {"object": "list", "model": model, "data": [] if "empty" in faults else [vector]}
    return finished_json(document if "no-usage" in faults else {**document, "usage": usage}, at_ns, faults)
