"""What a plan is made from: the scenario's traffic, as LoadGen's TestSettings would have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from fairmark.errors import InputError
from fairmark.scenario.model import ArrivalProcess, SamplingKind, Scenario, ScenarioKind, Seeds
from fairmark.traffic.recorded import (
    arrivals_sha256,
    read_arrivals,
    read_embedded_arrivals,
    recording_of,
    scaled_arrivals,
)
from fairmark.traffic.seeds import effective_seeds

__all__ = [
    "DEFAULT_QPS",
    "HIGHEST_QPS",
    "LONGEST_NS",
    "LOWEST_QPS",
    "Mode",
    "TrafficSettings",
    "min_queries_of_equal_issue",
    "traffic_settings",
]

Mode = Literal["performance", "accuracy"]

DEFAULT_QPS: Final[dict[ScenarioKind, float]] = {
    "SingleStream": 1000.0,
    "MultiStream": 125.0,
    "Server": 1.0,
    "Offline": 1.0,
    "Concurrency": 1000.0,
}
"""LoadGen's defaults (test_settings.h:109-280): expected latencies of 1 ms and 8 ms, rates of 1/s."""

LOWEST_QPS: Final = 1e-6
HIGHEST_QPS: Final = 1e9
_MOST_SAMPLES: Final = 1 << 27
"""A plan of more samples, 16 bytes each, is a mistake in the settings."""
LONGEST_NS: Final = 1 << 60
"""A schedule of more than 36 years is one too, and draws above the mean must still be int64."""

_LOWEST_GUESS: Final = 64
"""How many times too low the expected rate of a closed loop may be without cutting a run short."""
_LEAST_RESERVED: Final = 1 << 16
_MOST_RESERVED: Final = 1 << 20
"""Samples that are planned beyond LoadGen's; a run of days does not need them all."""

_OFFLINE_SLACK: Final = 1.1
_EQUAL_ISSUE_SLACK: Final = 2.0


@dataclass(frozen=True, slots=True)
class TrafficSettings:
    """Everything that decides a plan. Two equal settings give two identical plans.

    Attributes:
        total_sample_count: rows of the sample library.
        performance_sample_count: rows, from the first, that performance draws from; also the largest
            number of rows that accuracy loads at once.
        accuracy_sample_count: rows, from the first, that accuracy covers.
        target_qps: Server: queries a second. Others: LoadGen's expected rate, which sizes the plan
            (SingleStream and MultiStream: 1e9 / expected latency in ns).
        min_duration_ns, min_query_count: the floors as requested; LoadGen's effective ones are properties.
        samples_per_query: for MultiStream.
        seeds: effective seeds, already derived.
        recorded_ns: for ``trace``: arrival times after the first arrival.
    """

    scenario: ScenarioKind
    mode: Mode
    total_sample_count: int
    performance_sample_count: int
    accuracy_sample_count: int
    target_qps: float
    min_duration_ns: int
    min_query_count: int
    seeds: Seeds
    samples_per_query: int = 8
    sampling: SamplingKind = "replacement"
    same_index: int = 0
    process: ArrivalProcess = "poisson"
    cv: float | None = None
    recorded_ns: tuple[int, ...] | None = None

    @property
    def covers_set(self) -> bool:
        """Whether every query of a set is issued once, whatever the floors say."""
        return self.mode == "accuracy" or self.sampling == "unique"

    @property
    def effective_samples_per_query(self) -> int:
        """LoadGen's ``effective_samples_per_query`` (test_settings_internal.cc:125-160)."""
        if self.scenario == "MultiStream":
            return self.samples_per_query
        if self.scenario != "Offline":
            return 1
        if self.sampling == "unique":
            return self.performance_sample_count
        return max(self.min_query_count, _queries_in(self.min_duration_ns, self.target_qps, _OFFLINE_SLACK))

    @property
    def effective_min_query_count(self) -> int:
        """LoadGen's ``effective_min_query_count``."""
        if self.scenario == "Offline":
            return 1
        if self.sampling != "equal" or self.scenario not in ("SingleStream", "Concurrency"):
            return self.min_query_count
        return min_queries_of_equal_issue(
            self.min_query_count,
            min_duration_ns=self.min_duration_ns,
            expected_qps=self.target_qps,
            performance_sample_count=self.performance_sample_count,
        )

    @property
    def min_sample_count(self) -> int:
        """LoadGen's ``effective_min_sample_count``."""
        return self.effective_min_query_count * self.effective_samples_per_query

    @property
    def generation_ns(self) -> int:
        """The schedule that performance generates at least: closed loops get twice the minimum."""
        if self.scenario == "Offline":
            return 0
        return self.min_duration_ns if self.scenario == "Server" else 2 * self.min_duration_ns

    @property
    def expected_ns(self) -> float:
        """How long the schedule is, as drawn at the mean gap."""
        queries = self.accuracy_sample_count if self.mode == "accuracy" else self.effective_min_query_count
        return max(queries / self.target_qps * 1e9, self.generation_ns)

    @property
    def reserve_query_count(self) -> int:
        """How many queries a run's plan has at least, so that a low guess does not end it early.

        LoadGen spaces the queries of a closed loop by the expected rate and ends with the last of them. The
        plan goes on to what twice the shortest duration takes at 64 times that rate, or to 2^16 samples,
        whichever is more; but not beyond 2^20 samples, nor beyond what LoadGen's default rate takes. A system
        that is faster still ends the run with ``plan_exhausted``. 0 where the traffic does not rest on a
        guess.
        """
        if self.covers_set or self.scenario in ("Server", "Offline"):
            return 0
        seconds = self.generation_ns / 1e9
        guessed = min(math.ceil(seconds * _LOWEST_GUESS * self.target_qps), self._queries(_MOST_RESERVED))
        default = math.ceil(seconds * DEFAULT_QPS[self.scenario])
        return min(default, max(guessed, self._queries(_LEAST_RESERVED)))

    def _queries(self, samples: int) -> int:
        return samples // self.effective_samples_per_query


def min_queries_of_equal_issue(
    min_query_count: int, *, min_duration_ns: int, expected_qps: float, performance_sample_count: int
) -> int:
    """LoadGen's ``effective_min_query_count`` of SingleStream with equal issue.

    It is raised past a multiple of the performance set, so that an exact multiple gains a whole set
    (test_settings_internal.cc:162-178).
    """
    count = max(min_query_count, _queries_in(min_duration_ns, expected_qps, _EQUAL_ISSUE_SLACK))
    return count + performance_sample_count - count % performance_sample_count


def _queries_in(duration_ns: int, qps: float, slack: float) -> int:
    return int(slack * (duration_ns / 1e9) * qps)


def traffic_settings(
    scenario: Scenario,
    mode: Mode,
    sample_count: int,
    *,
    repetition: int = 0,
    nonce: str | None = None,
    recording: Path | None = None,
) -> TrafficSettings:
    """The traffic of one phase of a scenario.

    An accuracy phase covers every row once: ``sampling = "same"`` holds for performance only.

    Args:
        sample_count: rows of the sample library.
        repetition, nonce: see `fairmark.traffic.seeds.effective_seeds`.
        recording: a copy of the recorded arrivals, which an audit has; None reads the file that the scenario
            names.

    Raises:
        InputError: the settings cannot be planned; the message names the scenario's source and field.
    """
    run, arrivals = scenario.run, scenario.arrivals
    settings = TrafficSettings(
        scenario=scenario.scenario,
        mode=mode,
        total_sample_count=sample_count,
        performance_sample_count=_or_all(scenario.samples.performance_sample_count, sample_count),
        accuracy_sample_count=_or_all(scenario.samples.accuracy_sample_count, sample_count),
        target_qps=_target_qps(scenario),
        min_duration_ns=round(scenario.min_duration_s * 1e9),
        min_query_count=scenario.min_query_count,
        seeds=effective_seeds(scenario.seeds, repetition=repetition, nonce=nonce),
        samples_per_query=run.samples_per_query,
        sampling="replacement" if mode == "accuracy" and run.sampling == "same" else run.sampling,
        same_index=run.same_index,
        process=arrivals.process,
        cv=arrivals.cv,
        recorded_ns=None if arrivals.trace is None else _recorded_ns(scenario, arrivals.trace, recording),
    )
    _check(settings, scenario.source)
    return settings


def _or_all(count: int | None, sample_count: int) -> int:
    return sample_count if count is None else count


def _recorded_ns(scenario: Scenario, name: str, copy: Path | None) -> tuple[int, ...]:
    """The pinned recording, at ``settings.target_qps`` where that is set, else at its own rate.

    The scenario digest holds the recording's digest, so that two recordings cannot pass for one scenario.
    """
    path = recording_of(scenario)
    arrivals_ns = read_embedded_arrivals(name) if path is None else read_arrivals(copy or path)
    digest, stated = arrivals_sha256(arrivals_ns), scenario.arrivals.sha256
    if stated != digest:
        raise InputError(
            "is missing" if stated is None else f"is not that of {name}",
            source=scenario.source,
            field="arrivals.sha256",
            value=stated,
            accepted=f'"{digest}", the digest of the arrivals in {name}',
        )
    qps = scenario.settings.target_qps
    return arrivals_ns if qps is None else scaled_arrivals(arrivals_ns, qps)


def _target_qps(scenario: Scenario) -> float:
    if scenario.settings.target_qps is not None:
        return scenario.settings.target_qps
    if scenario.scenario == "Server" and scenario.arrivals.process != "trace":
        raise InputError(
            "is missing; the Server scenario needs an offered rate",
            source=scenario.source,
            field="settings.target_qps",
            accepted="a number > 0",
        )
    return DEFAULT_QPS[scenario.scenario]


def _check(s: TrafficSettings, source: str) -> None:
    """Refuse settings that no plan can follow."""

    def require(
        holds: bool, field: str, value: object, accepted: str, problem: str = "is impossible"
    ) -> None:
        if not holds:
            raise InputError(problem, source=source or None, field=field, value=value, accepted=accepted)

    rows = f"1 to {s.total_sample_count}, the rows there are"
    require(
        s.total_sample_count >= 1, "samples.source", s.total_sample_count, "at least one row", "has no rows"
    )
    for name, count in (
        ("performance_sample_count", s.performance_sample_count),
        ("accuracy_sample_count", s.accuracy_sample_count),
    ):
        require(1 <= count <= s.total_sample_count, f"samples.{name}", count, rows)
    rates = f"{LOWEST_QPS:g} to {HIGHEST_QPS:g}"
    require(LOWEST_QPS <= s.target_qps <= HIGHEST_QPS, "settings.target_qps", s.target_qps, rates)
    require(s.min_query_count >= 1, "run.min_query_count", s.min_query_count, "an integer >= 1")
    require(s.samples_per_query >= 1, "run.samples_per_query", s.samples_per_query, "an integer >= 1")
    below = f"0 to {s.performance_sample_count - 1}, inside the performance set"
    require(0 <= s.same_index < s.performance_sample_count, "run.same_index", s.same_index, below)
    require((s.process == "gamma") == (s.cv is not None), "arrivals.cv", s.cv, "a number > 0, for gamma only")
    require(s.cv is None or 0.01 <= s.cv <= 10, "arrivals.cv", s.cv, "0.01 to 10")
    for name, seed in (
        ("qsl", s.seeds.qsl),
        ("sample_index", s.seeds.sample_index),
        ("schedule", s.seeds.schedule),
    ):
        require(0 <= seed < 1 << 64, f"seeds.{name}", seed, "an integer from 0 to 2^64 - 1")
    require(
        s.expected_ns <= LONGEST_NS,
        "settings.target_qps",
        s.target_qps,
        "a higher rate, or lower floors",
        f"makes, with the floors, a schedule of {s.expected_ns / 1e9:.3g} s",
    )
    queries = max(s.effective_min_query_count, s.generation_ns / 1e9 * s.target_qps)
    samples = queries * s.effective_samples_per_query
    require(
        samples <= _MOST_SAMPLES,
        "settings.target_qps",
        s.target_qps,
        f"a rate and floors that ask for at most {_MOST_SAMPLES} samples",
        f"asks, with the floors, for {samples:.3g} samples",
    )
