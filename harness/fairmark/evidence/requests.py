"""The digest that ties a run to the exact request bodies it sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

__all__ = ["requests_sha256"]


def requests_sha256(bodies: Mapping[int, bytes], sample_index: npt.NDArray[np.int64]) -> str:
    """SHA-256 over the concatenated SHA-256 digests of the request bodies, in seq order.

    Args:
        bodies: the rendered body of every sample that is asked for, by sample index.
        sample_index: int64[samples], the planned samples of all phases in seq order.
    """
    digests = {index: hashlib.sha256(body).digest() for index, body in bodies.items()}
    total = hashlib.sha256()
    for start in range(0, len(sample_index), 65536):
        total.update(b"".join(digests[i] for i in sample_index[start : start + 65536].tolist()))
    return total.hexdigest()
