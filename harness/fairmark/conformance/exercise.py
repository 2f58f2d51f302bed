"""An exercise: one short run of the real driver, read back from its evidence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from fairmark.evidence.tables import read_table

__all__ = ["Exercise", "Query", "read_exercise"]

_BEARS_TOKENS: Final = ("content", "reasoning", "tool")


@dataclass(frozen=True, slots=True)
class Query:
    """One query of an exercise.

    Attributes:
        row: its row of the table ``queries``.
        text, reasoning, data: what came back.
        chunks: (arrival in ns, kind, tokens or None) of every piece of output.
    """

    row: Mapping[str, Any]
    text: str
    reasoning: str
    data: bytes | None
    chunks: Sequence[tuple[int, str, int | None]]

    @property
    def sample(self) -> int:
        """Which question it asked."""
        return int(self.row["sample_index"])

    @property
    def failure(self) -> str | None:
        """The kind of failure; None for a success."""
        kind: str | None = self.row["failure"]
        return kind

    @property
    def answer(self) -> str | bytes:
        """What was answered, in the form that it came in."""
        return self.reasoning + self.text if self.data is None else self.data

    @property
    def name(self) -> str:
        """For messages."""
        return f"query {self.row['seq']}"


@dataclass(frozen=True)
class Exercise:
    """A finished run.

    Attributes:
        breaches: breaches of the plugin contract by kind; None where the driver decodes a wire and no plugin
            reports.
        first_breaches: kind -> the first one in words.
    """

    name: str
    queries: Sequence[Query]
    stop_reason: str
    detail: str | None
    breaches: Mapping[str, int] | None
    first_breaches: Mapping[str, str]

    @property
    def ended_well(self) -> bool:
        """Whether it came to the end that was planned."""
        return self.stop_reason in ("complete", "max_queries")

    @cached_property
    def successes(self) -> Sequence[Query]:
        """The queries that were answered, in the order they were issued."""
        return [q for q in self.queries if q.failure is None]

    @cached_property
    def failures(self) -> Mapping[str, int]:
        """How many queries failed, by kind."""
        return Counter(q.failure for q in self.queries if q.failure is not None)

    def first_failure(self, kinds: Collection[str | None]) -> str:
        """The first failure of one of ``kinds``, in words."""
        query = next(q for q in self.queries if q.failure in kinds)
        return f"{query.name}: {query.failure}: {query.row['failure_detail']}"


def read_exercise(name: str, folder: Path) -> Exercise:
    """Read the run in ``folder``."""
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    evidence = folder / "evidence"
    outputs = {row["seq"]: row for row in _rows(evidence, "outputs")}
    chunks: dict[int, list[tuple[int, str, int | None]]] = {}
    for row in _rows(evidence, "events"):
        if row["kind"] in _BEARS_TOKENS:
            chunks.setdefault(row["seq"], []).append((row["arrival_ns"], row["kind"], row["n_tokens"]))
    queries = [
        Query(
            row=row,
            text=(output := outputs.get(row["seq"], {})).get("text") or "",
            reasoning=output.get("reasoning") or "",
            data=output.get("data"),
            chunks=chunks.get(row["seq"], ()),
        )
        for row in _rows(evidence, "queries")
        if row["issued_ns"] is not None
    ]
    breaches, first = _breaches(json.loads((evidence / "workers.json").read_text(encoding="utf-8")))
    return Exercise(
        name=name,
        queries=queries,
        stop_reason=record["outcome"]["stop_reason"],
        detail=record["outcome"]["detail"],
        breaches=breaches,
        first_breaches=first,
    )


def _rows(evidence: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_table(name, evidence / f"{name}.parquet").to_pylist()
    return rows


def _breaches(workers: Sequence[Mapping[str, Any]]) -> tuple[dict[str, int] | None, dict[str, str]]:
    found = [worker["violations"] for worker in workers if "violations" in worker]
    if not found:
        return None, {}
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for violations in found:
        counts.update(violations["by_kind"])
        for breach in violations["first"]:
            where = "no known query" if breach["seq"] is None else f"query {breach['seq']}"
            first.setdefault(breach["kind"], f"{where}: {breach['detail']}".rstrip(": "))
    return dict(counts), first
