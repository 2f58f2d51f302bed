"""What every tool would have printed for one phase of one run, side by side with fairmark's own numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.evidence.evidence import Evidence
from fairmark.measure.terms import read_terms
from fairmark.study.rosetta.endpoints import ENDPOINTS
from fairmark.study.rosetta.figures import QUANTITIES, UNITS, Figure, Quantity, Tool
from fairmark.study.rosetta.guidellm import GUIDELLM
from fairmark.study.rosetta.loadgen import LOADGEN
from fairmark.study.rosetta.others import AIPERF, GENAI_BENCH, INFERENCE_PERF, LLMPERF, SGLANG
from fairmark.study.rosetta.ours import ours
from fairmark.study.rosetta.streams import read_streams
from fairmark.study.rosetta.vllm import VLLM

__all__ = ["TOOLS", "Column", "Rosetta", "rosetta", "rosetta_document", "rosetta_text"]

TOOLS: Final[Mapping[str, Tool]] = {
    tool.id: tool
    for tool in (LOADGEN, ENDPOINTS, VLLM, SGLANG, GUIDELLM, AIPERF, INFERENCE_PERF, GENAI_BENCH, LLMPERF)
}
_STATISTICS: Final = ("mean", "p50", "p90", "p95", "p99", "p99.9", "rate", "count")


@dataclass(frozen=True, slots=True)
class Column:
    """One tool's figures."""

    tool: Tool
    figures: Sequence[Figure]


@dataclass(frozen=True, slots=True)
class Rosetta:
    """fairmark's figures and those of other tools, for one phase."""

    phase: str
    ours: Sequence[Figure]
    columns: Sequence[Column]


def rosetta(
    evidence: Evidence, record: Mapping[str, Any], *, phase: str, tools: Sequence[str] = ()
) -> Rosetta:
    """Recompute what ``tools`` (all, when none is named) would have printed for ``phase``.

    Raises:
        InputError: a tool is not known, or the run has no such phase or nothing was issued in it.
    """
    unknown = [name for name in tools if name not in TOOLS]
    if unknown:
        raise InputError("no such tool", field="--tool", value=unknown[0], accepted=", ".join(TOOLS))
    measured = record.get("metrics") or {}
    if phase not in measured:
        accepted = ", ".join(measured) or "a run that got as far as a counted phase"
        raise InputError("the run has no such phase", field="--phase", value=phase, accepted=accepted)
    streams = read_streams(evidence, read_terms(record["scenario"]), phase)
    if not len(streams):
        raise InputError("nothing was issued in this phase", field="--phase", value=phase)
    chosen = [TOOLS[name] for name in tools or TOOLS]
    return Rosetta(phase, ours(measured[phase]), [Column(tool, tool.figures(streams)) for tool in chosen])


def rosetta_document(result: Rosetta) -> dict[str, Any]:
    """The result as a JSON document (schemas/cli-rosetta.schema.json)."""
    return {
        "phase": result.phase,
        "fairmark": [_figure(f) for f in result.ours],
        "tools": [
            {
                "id": column.tool.id,
                "title": column.tool.title,
                "version": column.tool.version,
                "proof": column.tool.proof,
                "percentiles": column.tool.percentiles,
                "figures": [_figure(f) for f in column.figures],
                "differs": dict(column.tool.differs),
            }
            for column in result.columns
        ],
    }


def _figure(figure: Figure) -> dict[str, Any]:
    document: dict[str, Any] = {
        "quantity": figure.quantity,
        "statistic": figure.statistic,
        "name": figure.name,
        "unit": UNITS[figure.quantity],
        "value": figure.value,
    }
    return document if figure.undefined is None else document | {"undefined": figure.undefined}


def rosetta_text(result: Rosetta) -> str:
    """The result as tables, one for each quantity, each followed by why the tools differ."""
    parts = [part for quantity in QUANTITIES if (part := _quantity(result, quantity)) is not None]
    return "\n\n".join([*parts, _rules(result)])


def _rules(result: Rosetta) -> str:
    lines = [
        f"  {column.tool.id} {column.tool.version}: {column.tool.percentiles}" for column in result.columns
    ]
    by_formula = [column.tool.id for column in result.columns if column.tool.proof == "formula"]
    if by_formula:
        lines.append(f"By formula, not run beside fairmark: {', '.join(by_formula)}")
    return "\n".join(["What a percentile is", *lines])


def _quantity(result: Rosetta, quantity: Quantity) -> str | None:
    from tabulate import tabulate

    named = [("fairmark", result.ours), *((c.tool.id, c.figures) for c in result.columns)]
    told = [(name, {f.statistic: f for f in figures if f.quantity == quantity}) for name, figures in named]
    told = [(name, found) for name, found in told if found]
    statistics = [s for s in _STATISTICS if any(s in found for _, found in told)]
    if not statistics:
        return None
    rows = [[name, *(_cell(found.get(s)) for s in statistics)] for name, found in told]
    unit = f" ({UNITS[quantity]})" if UNITS[quantity] else ""
    align = ["left", *("right" for _ in statistics)]
    table = tabulate(
        rows, headers=["", *statistics], tablefmt="simple", disable_numparse=True, colalign=align
    )
    return "\n".join([f"{QUANTITIES[quantity]}{unit}", table, *_why(result, quantity, told)])


def _cell(figure: Figure | None) -> str:
    if figure is None:
        return ""
    return (
        "–"
        if figure.value is None
        else f"{figure.value:.10g}"
        if figure.statistic == "count"
        else f"{figure.value:.3f}"
    )


def _why(result: Rosetta, quantity: Quantity, told: Sequence[tuple[str, Mapping[str, Figure]]]) -> list[str]:
    reasons = {name: next((f.undefined for f in found.values() if f.undefined), None) for name, found in told}
    lines = [f"  {name}: – because {reason}" for name, reason in reasons.items() if reason]
    for column in result.columns:
        if quantity in column.tool.differs and column.tool.id in reasons:
            lines.append(f"  {column.tool.id}: {column.tool.differs[quantity]}")
    return lines
