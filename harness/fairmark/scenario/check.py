"""What a schema cannot say: fields of a scenario that must fit each other."""

from __future__ import annotations

from collections.abc import Callable

from fairmark.errors import InputError
from fairmark.scenario.explain import Locate
from fairmark.scenario.model import Scenario

__all__ = ["check_scenario"]


def check_scenario(scenario: Scenario, locate: Locate) -> None:
    """Refuse combinations that cannot be run or would not mean what they say.

    Raises:
        InputError: the first such combination.
    """

    def refuse(field: str, problem: str, value: object = None, accepted: str | None = None) -> InputError:
        source, line = locate(field.split("."))
        return InputError(problem, source=source, line=line, field=field, value=value, accepted=accepted)

    _check_arrivals(scenario, refuse)
    _check_floors(scenario, refuse)
    _check_samples(scenario, refuse)


Refuse = Callable[..., InputError]


def _check_arrivals(s: Scenario, refuse: Refuse) -> None:
    process = s.arrivals.process
    if s.scenario == "Server" and s.settings.target_qps is None and process != "trace":
        raise refuse(
            "settings.target_qps",
            "is missing; the Server scenario needs an offered rate",
            accepted="a number > 0",
        )
    if s.scenario == "Concurrency" and s.settings.concurrency is None:
        raise refuse(
            "settings.concurrency",
            "is missing; the Concurrency scenario needs it",
            accepted="an integer >= 1",
        )
    if s.scenario != "Concurrency" and s.settings.concurrency is not None:
        raise refuse(
            "settings.concurrency", f"means nothing in the {s.scenario} scenario", s.settings.concurrency
        )
    if s.scenario != "Server" and process != "poisson":
        raise refuse(
            "arrivals.process",
            f"means nothing in the {s.scenario} scenario, which issues on completion",
            process,
        )
    if s.scenario != "Concurrency" and s.arrivals.think_time_s > 0:
        raise refuse("arrivals.think_time_s", "needs the Concurrency scenario", s.arrivals.think_time_s, "0")
    if (process == "gamma") != (s.arrivals.cv is not None):
        raise refuse("arrivals.cv", "goes with process = 'gamma', and only with it", s.arrivals.cv)
    if (process == "trace") != (s.arrivals.trace is not None):
        raise refuse(
            "arrivals.trace",
            "goes with process = 'trace', and only with it",
            s.arrivals.trace,
            "a file with one arrival time a line, in seconds",
        )
    if s.arrivals.sha256 is not None and process != "trace":
        raise refuse("arrivals.sha256", "goes with process = 'trace', and only with it", s.arrivals.sha256)
    _check_outstanding(s, refuse)
    if s.scenario in ("SingleStream", "MultiStream") and s.settings.workers > 1:
        raise refuse("settings.workers", f"{s.scenario} has one query in flight", s.settings.workers, "1")


def _check_outstanding(s: Scenario, refuse: Refuse) -> None:
    limit = s.run.max_outstanding_queries
    if limit is None:
        return
    field = "run.max_outstanding_queries"
    if s.scenario != "Server":
        raise refuse(field, f"means nothing in the {s.scenario} scenario, which issues on completion", limit)
    if s.settings.workers > 1:
        raise refuse(
            "settings.workers",
            f"do not know of each other's queries, which {field} counts",
            s.settings.workers,
            "1",
        )


def _check_floors(s: Scenario, refuse: Refuse) -> None:
    run, settings = s.run, s.settings
    if settings.min_duration_s is not None and settings.min_duration_s < run.min_duration_s:
        raise refuse(
            "settings.min_duration_s",
            "is below the scenario's floor",
            settings.min_duration_s,
            f"a number >= {run.min_duration_s}",
        )
    if settings.min_query_count is not None and settings.min_query_count < run.min_query_count:
        raise refuse(
            "settings.min_query_count",
            "is below the scenario's floor",
            settings.min_query_count,
            f"an integer >= {run.min_query_count}",
        )
    if run.max_duration_s is not None and run.max_duration_s < s.min_duration_s:
        raise refuse(
            "run.max_duration_s",
            "is below the minimum duration",
            run.max_duration_s,
            f">= {s.min_duration_s}",
        )
    if run.max_query_count is not None and run.max_query_count < s.min_query_count:
        raise refuse(
            "run.max_query_count",
            "is below the minimum query count",
            run.max_query_count,
            f">= {s.min_query_count}",
        )
    warmup = s.warmup
    if warmup.max_queries is not None and warmup.max_queries < warmup.queries:
        raise refuse(
            "warmup.max_queries", "is below warmup.queries", warmup.max_queries, f">= {warmup.queries}"
        )
    if warmup.max_duration_s < warmup.min_duration_s:
        raise refuse(
            "warmup.max_duration_s",
            "is below warmup.min_duration_s",
            warmup.max_duration_s,
            f">= {warmup.min_duration_s}",
        )


def _check_samples(s: Scenario, refuse: Refuse) -> None:
    count = s.samples.performance_sample_count
    if s.run.sampling == "same" and count is not None and s.run.same_index >= count:
        raise refuse("run.same_index", "lies outside the performance set", s.run.same_index, f"< {count}")
    if s.run.sampling != "same" and s.run.same_index:
        raise refuse("run.same_index", "needs sampling = 'same'", s.run.same_index, "0")
    if s.accuracy is None:
        return
    if s.accuracy.sha256 is not None and s.accuracy.reference is None:
        raise refuse("accuracy.sha256", "has no accuracy.reference to hold for", s.accuracy.sha256)
