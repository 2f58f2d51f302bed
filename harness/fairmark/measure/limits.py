"""How many tokens each answer may have: the scenario's limit, or the row's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from fairmark.measure.arrow import ABSENT, Int64s
from fairmark.samples.content import parse_row
from fairmark.samples.library import max_output_tokens

__all__ = ["output_limits"]


def output_limits(samples: pa.Table, scenario: Mapping[str, Any], sample_index: Int64s) -> Int64s:
    """The limit for each of ``sample_index``, in tokens; `ABSENT` where there is none.

    Args:
        samples: the evidence table.
        scenario: the resolved document.
    """
    column = scenario["samples"].get("output_tokens")
    cap = scenario["generation"].get("max_output_tokens")
    if column is None:
        return np.full(len(sample_index), ABSENT if cap is None else cap, dtype=np.int64)
    rows = dict(zip(samples["index"].to_pylist(), samples["row"].to_pylist(), strict=True))
    asked, position = np.unique(sample_index, return_inverse=True)
    limits = [max_output_tokens(parse_row(str(rows[i])), column, cap) for i in asked.tolist()]
    found: Int64s = np.array([ABSENT if n is None else n for n in limits], dtype=np.int64)
    return found[position]
