"""From evidence to numbers: everything in a record's ``metrics``, as a pure function of what was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fairmark.evidence.evidence import Evidence
from fairmark.measure.accuracy import score
from fairmark.measure.as_loadgen import as_loadgen
from fairmark.measure.by_length import by_length
from fairmark.measure.chunks import read_chunks
from fairmark.measure.client import client
from fairmark.measure.concurrency import concurrency
from fairmark.measure.constraint import classes, constraint
from fairmark.measure.counts import counts
from fairmark.measure.delivery import delivery
from fairmark.measure.latency import identity, latency
from fairmark.measure.limits import output_limits
from fairmark.measure.phase import of_phase, read_phase
from fairmark.measure.programs import Runner
from fairmark.measure.rates import rates
from fairmark.measure.stages import two_stages
from fairmark.measure.steady import steady
from fairmark.measure.stopping import stopping
from fairmark.measure.terms import Terms, read_terms
from fairmark.measure.tokens import tokens
from fairmark.measure.users import users
from fairmark.measure.windows import window

__all__ = ["measure"]

_COUNTED: Final = ("performance", "accuracy")


def measure(
    evidence: Evidence,
    facts: Mapping[str, Any],
    references: bytes | None = None,
    *,
    run_program: Runner | None = None,
) -> dict[str, dict[str, Any]]:
    """The metrics of a run, by counted phase; ``schemas/run.schema.json`` gives their shape.

    Args:
        evidence: the tables of the run.
        facts: the facts part of ``run.json``, scenario document included.
        references: bytes of the accuracy reference file, when the scenario has one.
        run_program: runs answers that are programs; without it they have no score.

    A phase is there when the plan or the queries hold it. Times are ns on the run's clock.
    """
    scenario = facts["scenario"]
    terms = read_terms(scenario, rows=len(evidence.samples))
    names = [n for n in _COUNTED if len(of_phase(evidence.queries, n)) or len(of_phase(evidence.plan, n))]
    scored = score(evidence, facts, references, phases=names, run_program=run_program)
    return {name: {**_phase(evidence, terms, name, scenario), "accuracy": scored[name]} for name in names}


def _phase(evidence: Evidence, terms: Terms, name: str, scenario: Mapping[str, Any]) -> dict[str, Any]:
    phase = read_phase(evidence.queries, name)
    chunks = read_chunks(evidence.events, phase)
    limits = output_limits(evidence.samples, scenario, phase.sample_index)
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
        "users": users(phase, scenario),
        "steady": steady(phase, terms),
        "client": client(phase, terms, evidence.health, evidence.workers, evidence.environment),
        "delivery": delivery(phase, terms, evidence.plan),
        "tokens": tokens(phase, chunks, terms, evidence.outputs, limits),
        "by_length": by_length(phase, terms, scenario["samples"].get("lengths_like")),
        "two_stages": two_stages(phase, terms),
        "loadgen": as_loadgen(phase, terms),
    }
