"""The numbers of an MLPerf Inference round: ``limits/round.json`` beside its rules.

A round that differs little from another names it under ``extends`` and gives the differences as a JSON merge
patch (RFC 7396): null takes an entry away.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.judge.rules import Ruleset

__all__ = ["Entry", "Round", "round_of"]

_PREFIX: Final = "mlperf-inference-"
_SUFFIX: Final = re.compile(r"(-interactive)?(-(?:95|99|99\.9))?$")
_LIMITS: Final = (
    "percentile",
    "min_duration_ms",
    "min_query_count",
    "samples_per_query",
    "performance_sample_count",
    "accuracy_sample_count",
    "equal_issue",
    "token_latencies",
    "ttft_ns",
    "tpot_ns",
    "target_latency_ns",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a folder or an option says a run is entered as. ``scenario`` is None where it is not said."""

    benchmark: str | None
    scenario: str | None


@dataclass(frozen=True, slots=True)
class Round:
    """A round's tables. ``sha256`` is of their content with everything that they extend."""

    name: str
    tables: Mapping[str, Any]
    sha256: str

    def entry(self, name: str) -> Entry | None:
        """The benchmark that ``name`` stands for, in the spellings of LoadGen and of submissions.

        ``-99`` and ``-99.9`` tell accuracies apart, which share their limits. None: no such benchmark.
        """
        plain = _SUFFIX.sub("", name.lower())
        interactive = "-interactive" in name.lower()
        known = {_letters(benchmark): benchmark for benchmark in self.tables["benchmarks"]}
        benchmark = known.get(_letters({"resnet50": "resnet"}.get(plain, plain)))
        return None if benchmark is None else Entry(benchmark, "Interactive" if interactive else None)

    def recognise(self, folder: Path) -> Entry:
        """Benchmark and scenario from the names of folders, the deepest that says so.

        A name that fits several benchmarks says nothing.
        """
        benchmark = scenario = None
        for part in reversed(folder.resolve().parts):
            words = (part, *part.split("_"))
            entries = {entry for entry in map(self.entry, words) if entry is not None}
            if benchmark is None and len({entry.benchmark for entry in entries}) == 1:
                benchmark = next(iter(entries)).benchmark
                scenario = scenario or next((entry.scenario for entry in entries if entry.scenario), None)
            named = {
                name for word in words for name in self.tables["scenarios"] if word.lower() == name.lower()
            }
            if scenario is None and len(named) == 1:
                scenario = named.pop()
        return Entry(benchmark, scenario)

    def limits(self, benchmark: str | None, scenario: str | None) -> dict[str, Any]:
        """The limits of a benchmark in a scenario, in the units of their names.

        Null is "no such limit". What depends on an unknown benchmark or scenario is left out, and
        ``undefined`` says why.
        """
        limits: dict[str, Any] = {"seeds": self.tables["seeds"]}
        if benchmark is None:
            return limits | {"undefined": "the benchmark is not known"}
        table = self.tables["benchmarks"][benchmark]
        if scenario not in table["scenarios"]:
            why = f"{benchmark} has no scenario {scenario} in round {self.name}"
            return limits | {"undefined": why}
        merged = self.tables["scenarios"][scenario] | table | table["scenarios"][scenario]
        return limits | {name: merged.get(name) for name in _LIMITS} | {"metric": merged["metric"]}


def round_of(ruleset: Ruleset) -> Round:
    """The round whose rules a ruleset holds or extends.

    Raises:
        InputError: it is not one of MLPerf Inference.
    """
    for name in ruleset.lineage:
        if name.startswith(_PREFIX):
            tables = _tables(name.removeprefix(_PREFIX))
            content = json.dumps(tables, sort_keys=True, separators=(",", ":"))
            return Round(tables["round"], tables, hashlib.sha256(content.encode()).hexdigest())
    raise InputError("has no limits of a round", source="--ruleset", value=ruleset.id, accepted=f"{_PREFIX}*")


def _tables(name: str) -> dict[str, Any]:
    path = resources.files("fairmark.schemas").joinpath("rules", _PREFIX + name, "limits", "round.json")
    tables: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    base = tables.pop("extends", None)
    return tables if base is None else _patched(_tables(base), tables)


def _patched(tables: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in patch.items():
        if value is None:
            tables.pop(key, None)
        elif isinstance(value, dict):
            inner = tables.get(key)
            tables[key] = _patched(inner if isinstance(inner, dict) else {}, value)
        else:
            tables[key] = value
    return tables


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
