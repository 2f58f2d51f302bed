"""The first runs of a newcomer: three scenarios on the bundled model, driven and judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairmark.drive.job import Progress
from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import RunMode, prepare
from fairmark.study.run import choose_sut, default_folder, run_once

__all__ = ["SCENARIOS", "Quickstart", "quickstart"]

SCENARIOS: Final[Sequence[tuple[str, RunMode]]] = (
    ("smollm2-gsm8k-offline", "submission"),
    ("smollm2-gsm8k-singlestream", "performance"),
    ("smollm2-gsm8k-server", "performance"),
)
"""What is run, in order. One accuracy phase is enough: all three ask the same model the same questions."""

Narrator = Callable[[str], AbstractContextManager[Callable[[Progress], None]]]


@dataclass(frozen=True, slots=True)
class Quickstart:
    """The run folders in the order they ran, and their records."""

    runs: tuple[Path, ...]
    records: tuple[dict[str, Any], ...]


def quickstart(
    *, sut: str, options: Sequence[str], runs: Path, stop: StopSignal, narrate: Narrator
) -> Quickstart:
    """Run `SCENARIOS` one after the other; a stop ends the series with the run it met.

    Args:
        sut, options: the system under test, opened anew for every scenario.
        runs: where run folders go.
        narrate: opens the progress display of a scenario.

    Raises:
        InputError: the SUT or the folder cannot be used.
        SutError: the SUT does not work.
    """
    choice, rules = choose_sut(sut, options), load_ruleset("fairmark-open-1")
    folders: list[Path] = []
    records: list[dict[str, Any]] = []
    for name, mode in SCENARIOS:
        with narrate(name) as progress:
            prepared = prepare(name, mode=mode)
            folders.append(default_folder(prepared, runs))
            records.append(
                run_once(prepared, choice, out=folders[-1], ruleset=rules, stop=stop, progress=progress)
            )
        if stop.level:
            break
    return Quickstart(tuple(folders), tuple(records))
