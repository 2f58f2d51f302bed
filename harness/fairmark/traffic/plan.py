"""The plan: which sample every query sends, and when. Equal to LoadGen 6.0's, draw for draw.

Source: loadgen.cc, ``GenerateLoadableSets`` (:630-693) and ``GenerateQueries`` (:258-437).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmark.scenario.model import Seeds
from fairmark.traffic.arrivals import Gaps, constant_gaps, gamma_gaps, poisson_gaps, recorded_gaps
from fairmark.traffic.draws import draw_index
from fairmark.traffic.mt19937 import Int64Array, Mt19937
from fairmark.traffic.schedule import due_times, up_to_multiple
from fairmark.traffic.settings import TrafficSettings
from fairmark.traffic.shuffle import shuffle_epochs, shuffled, skip_epochs

__all__ = ["Plan", "SampleSet", "arrival_gaps", "make_plan", "plan_sha256", "run_plan"]


@dataclass(frozen=True, slots=True, eq=False)
class SampleSet:
    """Samples that are loaded together, and the queries drawn from them.

    Attributes:
        samples: int64[n] sample indices in the order they are loaded; MultiStream repeats the first
            ``samples_per_query - 1`` of them at the end.
        first_query, end_query: the half-open range of queries.
        samples_per_query: the same for every query of a set.
        generated_query_count, generated_duration_ns: LoadGen's ``generated_query_count`` and
            ``generated_query_duration`` (when one query more would have come). A plan that was continued has
            more queries than that.
    """

    samples: Int64Array
    first_query: int
    end_query: int
    samples_per_query: int
    generated_query_count: int
    generated_duration_ns: int


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The traffic of one phase.

    Attributes:
        settings: what it was made from.
        sample_index: int64[samples], in issue order.
        scheduled_ns: int64[queries], each relative to the start of its set. Server: the arrival. Other
            scenarios: the spacing that LoadGen generates with and does not wait for.
        sets: in issue order; performance has one.
    """

    settings: TrafficSettings
    sample_index: Int64Array
    scheduled_ns: Int64Array
    sets: tuple[SampleSet, ...]

    @property
    def query_count(self) -> int:
        """Queries in all sets."""
        return len(self.scheduled_ns)

    @property
    def query_offsets(self) -> Int64Array:
        """int64[queries + 1]: query q sends ``sample_index[offsets[q]:offsets[q + 1]]``.

        Computed at every call, so that a stored plan is 16 bytes a query.
        """
        sizes = [np.full(s.end_query - s.first_query, s.samples_per_query, dtype=np.int64) for s in self.sets]
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes), dtype=np.int64)])

    @property
    def generated_query_count(self) -> int:
        """LoadGen's ``generated_query_count``, summed over the sets."""
        return sum(s.generated_query_count for s in self.sets)

    @property
    def generated_duration_ns(self) -> int:
        """LoadGen's ``generated_query_duration``, summed over the sets."""
        return sum(s.generated_duration_ns for s in self.sets)

    @property
    def seeds(self) -> Seeds:
        """The effective seeds."""
        return self.settings.seeds


def make_plan(settings: TrafficSettings, *, at_least_queries: int = 0) -> Plan:
    """Plan one phase.

    Args:
        at_least_queries: continue the same generation to this many queries. What LoadGen would have
            generated stays an exact prefix.

    Raises:
        InputError: recorded arrivals end before the floors are reached.
        ValueError: the traffic is one pass over a set (accuracy, unique, Offline) and cannot go on.
    """
    if at_least_queries and (settings.covers_set or settings.scenario == "Offline"):
        raise ValueError("this traffic is one pass over its set and cannot be continued")
    sets: list[SampleSet] = []
    orders: list[Int64Array] = []
    schedules: list[Int64Array] = []
    first_query = 0
    for loaded, distinct in _loadable_sets(settings):
        generation = _Generation(settings, loaded, distinct)
        scheduled_ns, end_ns = generation.schedule()
        generated = len(scheduled_ns)
        if at_least_queries > generated:
            scheduled_ns, _ = generation.schedule(at_least_queries)
        end_query = first_query + len(scheduled_ns)
        spq = generation.samples_per_query
        sets.append(SampleSet(loaded, first_query, end_query, spq, generated, end_ns))
        orders.append(loaded[generation.positions(len(scheduled_ns))])
        schedules.append(scheduled_ns)
        first_query = end_query
    return Plan(settings, _joined(orders), _joined(schedules), tuple(sets))


def run_plan(settings: TrafficSettings) -> Plan:
    """Plan one phase of a run: LoadGen's traffic, and in closed loops more of the same.

    There the list is as long as a guess makes it, and a faster system would use it up before the minimum
    duration; see `TrafficSettings.reserve_query_count`.

    Raises:
        InputError: see `make_plan`.
    """
    return make_plan(settings, at_least_queries=settings.reserve_query_count)


def plan_sha256(plan: Plan) -> str:
    """The digest of a plan's traffic.

    SHA-256 of a line of compact JSON ``{"plan":"fairmark/plan/1","sets":[[queries, samples_per_query],...]}``
    with a newline, then ``sample_index`` and ``scheduled_ns`` as little-endian int64.
    """
    sets = [[s.end_query - s.first_query, s.samples_per_query] for s in plan.sets]
    header = json.dumps({"plan": "fairmark/plan/1", "sets": sets}, separators=(",", ":"))
    digest = hashlib.sha256(f"{header}\n".encode())
    for array in (plan.sample_index, plan.scheduled_ns):
        digest.update(np.ascontiguousarray(array, dtype="<i8").data)
    return digest.hexdigest()


def _joined(parts: Sequence[Int64Array]) -> Int64Array:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _loadable_sets(s: TrafficSettings) -> list[tuple[Int64Array, int]]:
    """Each set as (samples with MultiStream's padding, how many come before the padding)."""
    wanted = s.performance_sample_count if s.mode == "performance" else s.accuracy_sample_count
    total = min(wanted, s.total_sample_count)
    order = shuffled(Mt19937(s.seeds.qsl), total)
    padding = s.samples_per_query - 1 if s.scenario == "MultiStream" else 0
    sets: list[tuple[Int64Array, int]] = []
    for first in range(0, total, s.performance_sample_count):
        samples = order[first : first + s.performance_sample_count]
        sets.append((np.resize(samples, len(samples) + padding), len(samples)))
    return sets


class _Generation:
    """The queries of one set. Draws in LoadGen's order; what it draws and never uses is skipped."""

    def __init__(self, settings: TrafficSettings, loaded: Int64Array, distinct: int) -> None:
        s = self._settings = settings
        self._loaded_count = len(loaded)
        self._distinct = distinct
        self._equal = s.sampling == "equal"
        self._multi_stream = s.scenario == "MultiStream"
        offline = s.scenario == "Offline"
        accuracy = s.mode == "accuracy"
        spq = distinct if accuracy and offline else s.effective_samples_per_query
        self._min_queries = len(loaded) // spq if s.covers_set else s.effective_min_query_count
        self._draw_orders(stride=spq if self._multi_stream else 1)
        if self._equal and not accuracy:
            if offline:
                spq = up_to_multiple(spq, len(loaded))
            else:
                self._min_queries = up_to_multiple(self._min_queries, len(loaded))
        self.samples_per_query = spq

    def _draw_orders(self, stride: int) -> None:
        """The shuffles LoadGen makes before its loop, all from one stream of words."""
        s = self._settings
        words = self._words = Mt19937(s.seeds.sample_index)
        starts = -(-self._distinct // stride)
        epochs = -(-self._min_queries // self._loaded_count)
        self._one_pass = np.empty(0, dtype=np.int64)
        self._epochs = np.empty(0, dtype=np.int64)
        if s.mode == "accuracy":
            self._one_pass = shuffled(words, starts) * stride
        if s.sampling == "unique":
            self._one_pass = shuffled(words, starts) * stride
        else:
            skip_epochs(words, starts, 1)
        if self._equal and not self._multi_stream and s.scenario != "Offline":
            self._epochs = shuffle_epochs(words, self._loaded_count, epochs)
        else:
            skip_epochs(words, self._loaded_count, epochs)

    def schedule(self, at_least_queries: int = 0) -> tuple[Int64Array, int]:
        """When each query is due, in ns, and when one more would have been."""
        s = self._settings
        until_ns = 0 if s.covers_set else s.generation_ns
        mean_count = until_ns / 1e9 * s.target_qps
        return due_times(
            arrival_gaps(s, repeat_recorded=s.mode == "accuracy"),
            until_ns=until_ns,
            min_count=self._min_queries,
            at_least=at_least_queries,
            step=self._loaded_count if self._equal and s.scenario != "Offline" else 1,
            expected_count=mean_count + 4 * math.sqrt(mean_count) + 2,
        )

    def positions(self, queries: int) -> Int64Array:
        """Positions in the loaded set, sample by sample in issue order."""
        if self._settings.scenario == "Offline":
            return self._offline_positions()
        starts = self._starts(queries)
        if self.samples_per_query == 1:
            return starts
        return (starts[:, None] + np.arange(self.samples_per_query)).reshape(-1)

    def _offline_positions(self) -> Int64Array:
        """The one query: whole passes over the set, and the beginning of another."""
        s = self._settings
        if s.sampling == "same":
            return np.full(self.samples_per_query, s.same_index, dtype=np.int64)
        if not self._equal:
            return np.arange(self.samples_per_query, dtype=np.int64) % self._loaded_count
        passes = self.samples_per_query // self._loaded_count
        return np.concatenate([shuffled(self._words, self._loaded_count) for _ in range(passes)])

    def _starts(self, queries: int) -> Int64Array:
        """The position of each query's first sample."""
        s = self._settings
        if s.sampling == "unique":
            return self._one_pass
        if s.sampling == "same":
            return np.full(queries, s.same_index, dtype=np.int64)
        if self._equal and not self._multi_stream:
            return np.resize(self._epochs, queries)
        if s.mode == "accuracy":
            return self._one_pass
        return draw_index(self._words, self._distinct, queries)


def arrival_gaps(s: TrafficSettings, *, repeat_recorded: bool) -> Gaps:
    """The gaps between queries. Only Server has an arrival process; the others are spaced evenly."""
    if s.scenario != "Server" or s.process == "constant":
        return constant_gaps(s.target_qps)
    if s.process == "trace":
        return recorded_gaps(np.array(s.recorded_ns, dtype=np.int64), repeat=repeat_recorded)
    words = Mt19937(s.seeds.schedule)
    if s.process == "gamma" and s.cv is not None:
        return gamma_gaps(words, s.target_qps, s.cv)
    return poisson_gaps(words, s.target_qps)
