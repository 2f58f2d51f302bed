"""From evidence to numbers: everything in a record's ``metrics``, as a pure function of what was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairmark.evidence.evidence import Evidence
from fairmark.measure.accuracy import score
from fairmark.measure.as_loadgen import as_loadgen
from fairmark.measure.chunks import read_chunks
from fairmark.measure.client import client
from fairmark.measure.concurrency import concurrency
from fairmark.measure.constraint import classes, constraint
from fairmark.measure.counts import counts
from fairmark.measure.delivery import delivery
from fairmark.measure.latency import identity, latency
from fairmark.measure.phase import of_phase, read_phase
from fairmark.measure.rates import rates
from fairmark.measure.stages import two_stages
from fairmark.measure.steady import steady
from fairmark.measure.stopping import stopping
from fairmark.measure.terms import Terms, read_terms
from fairmark.measure.tokens import tokens
from fairmark.measure.windows import window

__all__ = ["measure"]

_COUNTED: Final = ("performance", "accuracy")


def measure(
    evidence: Evidence, facts: Mapping[str, Any], references: bytes | None = None
) -> dict[str, dict[str, Any]]:
    """The metrics of a run, by counted phase; ``schemas/run.schema.json`` gives their shape.

    Args:
        evidence: the tables of the run.
        facts: the facts part of ``run.json``, scenario document included.
        references: bytes of the accuracy reference file, when the scenario has one.

    A phase is there when the plan or the queries hold it. Times are ns on the run's clock.
    """
    terms = read_terms(facts["scenario"], rows=len(evidence.samples))
    return {
        name: {
            **_phase(evidence, terms, name),
            "accuracy": score(evidence, facts, references, phase=name),
        }
        for name in _COUNTED
        if len(of_phase(evidence.queries, name)) or len(of_phase(evidence.plan, name))
    }


def _phase(evidence: Evidence, terms: Terms, name: str) -> dict[str, Any]:
    phase = read_phase(evidence.queries, name)
    chunks = read_chunks(evidence.events, phase)
    return {
        "counts": counts(phase, terms),
        "window": window(phase, terms),
        "rates": rates(phase, terms),
        "latency": latency(phase, chunks, generates_tokens=terms.generates_tokens),
        "identity": identity(phase),
        "constraint": constraint(phase, terms),
        "classes": classes(phase, terms),
        "early_stopping": stopping(phase, terms),
        "concurrency": concurrency(phase, evidence.telemetry),
        "steady": steady(phase, terms),
        "client": client(phase, terms, evidence.health, evidence.workers, evidence.environment),
        "delivery": delivery(phase, terms, evidence.plan),
        "tokens": tokens(phase, chunks, terms, evidence.outputs),
        "two_stages": two_stages(phase, terms),
        "loadgen": as_loadgen(phase, terms),
    }
