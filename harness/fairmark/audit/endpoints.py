"""Was every query sent to the endpoint whose turn it was?"""

from __future__ import annotations

from typing import Final

import numpy as np

from fairmark.audit.problems import Problems
from fairmark.audit.subject import Subject
from fairmark.measure.arrow import ABSENT, int64s

__all__ = ["check_endpoints"]

_QUERIES: Final = "evidence/queries.parquet"
_RERUN: Final = "run the scenario again with an unmodified fairmark"


def check_endpoints(subject: Subject, problems: Problems) -> None:
    """Endpoints take turns by ``seq``: none is spared, and none is picked for what it is asked."""
    requests, queries = subject.record["requests"], subject.evidence.queries
    used, seq = int64s(queries, "endpoint"), int64s(queries, "seq")
    if requests is None:
        if (used != ABSENT).any():
            problems.error("audit.endpoints", _QUERIES, "names endpoints although there was no wire", _RERUN)
        return
    endpoints = requests.get("endpoints") or []
    if not endpoints:
        problems.error("audit.endpoints", "run.json", "requests.endpoints names no endpoint", _RERUN)
        return
    wrong = np.flatnonzero(used != seq % len(endpoints))
    if len(wrong):
        first = int(wrong[0])
        problems.error(
            "audit.endpoints",
            _QUERIES,
            f"{len(wrong)} samples went to an endpoint whose turn it was not; first seq {int(seq[first])}",
            _RERUN,
        )
