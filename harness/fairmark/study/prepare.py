"""Everything a run needs before it touches a system under test: scenario, samples, references, plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fairmark.errors import InputError
from fairmark.evidence.columns import Phase
from fairmark.measure.accuracy import check_scorer
from fairmark.samples.library import SampleLibrary, load_library
from fairmark.samples.references import load_references
from fairmark.scenario.load import parse_scenario
from fairmark.scenario.model import Scenario
from fairmark.scenario.toml import read_scenario_file
from fairmark.traffic.plan import Plan, plan_sha256, run_plan
from fairmark.traffic.recorded import recording_of
from fairmark.traffic.settings import Mode, traffic_settings
from fairmark.traffic.warmup import warmup_plan

__all__ = ["Prepared", "RunMode", "prepare"]

RunMode = Literal["performance", "accuracy", "submission", "profile"]

_PHASES: Mapping[RunMode, tuple[Mode, ...]] = {
    "performance": ("performance",),
    "accuracy": ("accuracy",),
    "submission": ("accuracy", "performance"),
    "profile": (),
}
"""The counted phases of each mode, in order; LoadGen's SubmissionRun is accuracy, then performance. A profile
is made of the warm-up, which nothing counts."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run, ready to be driven.

    Attributes:
        text: the scenario file, byte for byte.
        references: the bytes of the accuracy reference file, or None if the scenario names none.
        arrivals: the bytes of the file of recorded arrivals, or None if the scenario names none.
        plans: one per phase: the counted ones in the order they run, and the warm-up unless it is empty.
        series: the id that all repetitions share; None for a run alone.
    """

    scenario: Scenario
    text: bytes
    library: SampleLibrary
    references: bytes | None
    arrivals: bytes | None
    mode: RunMode
    repetition: int
    plans: Mapping[Phase, Plan]
    series: str | None = None

    @property
    def repetitions(self) -> int:
        """How many repetitions the settings ask for; see `fairmark.judge.series.wanted_repetitions`."""
        return 1 if self.mode == "accuracy" else self.scenario.settings.repetitions

    @property
    def plan_sha256(self) -> Mapping[Phase, str]:
        """The digest of each phase's plan."""
        return {phase: plan_sha256(plan) for phase, plan in self.plans.items()}


def prepare(
    name: str,
    overrides: Sequence[str] = (),
    *,
    mode: RunMode = "performance",
    repetition: int = 0,
    series: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Prepared:
    """Load a scenario with its samples and plan its traffic.

    Args:
        name: a scenario file, or the name of a shipped scenario.
        overrides: ``--set`` assignments.
        mode: which phases to plan.
        repetition: 0 uses the scenario's own seeds; others derive fresh ones.
        series: the id of the series that the repetition is one of.
        progress: called with the number of rows while a sample source is read for the first time.

    Raises:
        InputError: the scenario, its samples or its traffic cannot be used.
    """
    path, text = read_scenario_file(name)
    scenario = parse_scenario(text, source=str(path), overrides=overrides)
    try:
        library = load_library(scenario.samples, scenario.generation, base=path.parent, progress=progress)
        references = _references(scenario, path.parent)
        plans = _plans(scenario, mode, len(library), repetition)
        recording = recording_of(scenario)
    except InputError as error:
        raise error.in_source(path) from error
    return Prepared(
        scenario=scenario,
        text=text,
        library=library,
        references=references,
        arrivals=None if recording is None else recording.read_bytes(),
        mode=mode,
        repetition=repetition,
        plans=plans,
        series=series,
    )


def _references(scenario: Scenario, base: Path) -> bytes | None:
    if scenario.accuracy is None:
        return None
    check_scorer(scenario.accuracy, scenario.samples, scenario.generation)
    return load_references(scenario.accuracy, base=base)


def _plans(scenario: Scenario, mode: RunMode, rows: int, repetition: int) -> dict[Phase, Plan]:
    plans: dict[Phase, Plan] = {
        phase: run_plan(traffic_settings(scenario, phase, rows, repetition=repetition))
        for phase in _PHASES[mode]
    }
    warmup = warmup_plan(scenario, rows, repetition=repetition)
    if not warmup.query_count and mode == "profile":
        raise InputError(
            "a profile is made of the warm-up, and there is none",
            field="warmup.queries",
            value=scenario.warmup.queries,
            accepted="1 or more",
        )
    return {**plans, "warmup": warmup} if warmup.query_count else plans
