"""Warm-up traffic: the scenario's shape and rate, on rows that the measured run does not use."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from fairmark.errors import InputError
from fairmark.scenario.model import Scenario
from fairmark.traffic.mt19937 import Int64Array, Mt19937
from fairmark.traffic.plan import Plan, SampleSet, arrival_gaps
from fairmark.traffic.schedule import due_times
from fairmark.traffic.seeds import effective_seeds
from fairmark.traffic.settings import TrafficSettings, traffic_settings
from fairmark.traffic.shuffle import shuffle_epochs

__all__ = ["warmup_plan"]

_QUERIES_PER_WANTED = 4
_FEWEST_PLANNED = 32
"""Two blocks of 16: fewer cannot show that the system is steady."""


def warmup_plan(
    scenario: Scenario,
    sample_count: int,
    *,
    repetition: int = 0,
    nonce: str | None = None,
    recording: Path | None = None,
) -> Plan:
    """Plan the warm-up of a performance phase, as long as it may become.

    ``warmup.max_queries`` queries (default four times ``warmup.queries``, at least 32) of the scenario's
    size, at its rate, with seeds derived by the label ``warmup``. Offline sends them as the samples of one
    query. Rows are taken in shuffled passes, so that none repeats before all were sent once.

    Args:
        repetition, nonce, recording: see `fairmark.traffic.settings.traffic_settings`.

    Raises:
        InputError: ``warmup.samples = "disjoint"`` and the performance set leaves no row over.
    """
    measured = traffic_settings(
        scenario, "performance", sample_count, repetition=repetition, nonce=nonce, recording=recording
    )
    seeds = effective_seeds(scenario.seeds, repetition=repetition, nonce=nonce, label="warmup")
    count = _query_count(scenario)
    settings = replace(measured, seeds=seeds, min_query_count=count, min_duration_ns=0, sampling="equal")
    rows = _rows(scenario, measured)
    offline = settings.scenario == "Offline"
    samples_per_query = count if offline else settings.effective_samples_per_query
    queries = min(count, 1) if offline else count
    scheduled_ns, end_ns = _schedule(settings, queries)
    order = _passes(rows, queries * samples_per_query, settings)
    used = SampleSet(rows, 0, queries, samples_per_query, queries, end_ns)
    return Plan(settings, order, scheduled_ns, (used,))


def _query_count(scenario: Scenario) -> int:
    warmup = scenario.warmup
    if warmup.queries == 0:
        return 0
    if warmup.max_queries is not None:
        return warmup.max_queries
    return max(_QUERIES_PER_WANTED * warmup.queries, _FEWEST_PLANNED)


def _rows(scenario: Scenario, measured: TrafficSettings) -> Int64Array:
    """The rows warm-up may send, ascending."""
    if scenario.warmup.samples == "same":
        return np.arange(measured.performance_sample_count, dtype=np.int64)
    rows = np.arange(measured.performance_sample_count, measured.total_sample_count, dtype=np.int64)
    if len(rows) == 0 and scenario.warmup.queries > 0:
        raise InputError(
            f"has no row left: the performance set is all {measured.total_sample_count} of them",
            source=scenario.source,
            field="warmup.samples",
            value="disjoint",
            accepted="a smaller samples.performance_sample_count, or warmup.samples = 'same'",
        )
    return rows


def _passes(rows: Int64Array, samples: int, settings: TrafficSettings) -> Int64Array:
    if samples == 0:
        return np.empty(0, dtype=np.int64)
    passes = math.ceil(samples / len(rows))
    return rows[shuffle_epochs(Mt19937(settings.seeds.sample_index), len(rows), passes)[:samples]]


def _schedule(settings: TrafficSettings, queries: int) -> tuple[Int64Array, int]:
    if queries == 0:
        return np.empty(0, dtype=np.int64), 0
    return due_times(
        arrival_gaps(settings, repeat_recorded=True),
        until_ns=0,
        min_count=queries,
        at_least=queries,
        step=1,
        expected_count=queries,
    )
