"""A run and its repetitions: the same scenario under fresh seeds, the system started anew each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from fairmark.drive.job import Calibration, Clock, Progress
from fairmark.drive.stop import StopSignal
from fairmark.errors import InputError
from fairmark.evidence.json_file import write_json
from fairmark.judge.rules import Ruleset
from fairmark.judge.series import SERIES, judge_series
from fairmark.measure.programs import Runner
from fairmark.study.prepare import RunMode, prepare
from fairmark.study.run import SutChoice, run_once

__all__ = ["run_series"]

Narrator = Callable[[int], AbstractContextManager[Callable[[Progress], None]]]

_ENDS_THE_SERIES: Final = frozenset({"interrupted", "terminated", "sut_failed", "disk_full"})


def run_series(
    scenario: str,
    overrides: Sequence[str],
    choice: SutChoice,
    *,
    mode: RunMode,
    repetitions: int,
    out: Path,
    ruleset: Ruleset,
    stop: StopSignal,
    narrate: Narrator,
    calibration: Calibration = "cached",
    clock: Clock = "real",
    run_program: Runner | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run repetitions 0 to ``repetitions`` − 1, each into its own run folder below ``out``.

    Repetition 0 has the scenario's own seeds, the others seeds derived from them
    (`fairmark.traffic.seeds`). All have one fresh ``series`` id in their facts, so that nobody picks from the
    repetitions of several. One that does not hold does not end the series: how far they lie apart is part of
    the result.

    Args:
        out: a new folder; it gets ``repetition-<r>/`` and ``series.json``.
        narrate: opens the progress display of a repetition.

    Returns:
        The series document, and the records of the repetitions that ran.

    Raises:
        InputError: the run cannot be made from what the user gave.
        SutError: the SUT does not open, or does not answer a first request.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("already holds something", source="--out", value=str(out), accepted="a new folder")
    records: list[dict[str, Any]] = []
    series = uuid4().hex
    try:
        for number in range(repetitions):
            with narrate(number) as progress:
                record = run_once(
                    prepare(scenario, overrides, mode=mode, repetition=number, series=series),
                    choice,
                    out=out / f"repetition-{number}",
                    ruleset=ruleset,
                    stop=stop,
                    progress=progress,
                    calibration=calibration,
                    clock=clock,
                    run_program=run_program,
                )
            records.append(record)
            if stop.level or record["outcome"]["stop_reason"] in _ENDS_THE_SERIES:
                break
    finally:
        if records:
            write_json(out / SERIES, judge_series(records))
    return judge_series(records), records
