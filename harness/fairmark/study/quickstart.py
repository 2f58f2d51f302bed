"""The first run of a newcomer: three scenarios on the bundled model, judged, sealed and reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairmark.bundle.seal import REPORT
from fairmark.drive.job import Progress
from fairmark.drive.stop import StopSignal
from fairmark.judge.rules import load_ruleset
from fairmark.study.prepare import RunMode, prepare
from fairmark.study.run import choose_sut, default_folder, run_once
from fairmark.study.submit import submit

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
    """What a quickstart leaves.

    Attributes:
        runs: the run folders, in the order they ran.
        records: their records.
        bundle, report: None when it was interrupted.
    """

    runs: tuple[Path, ...]
    records: tuple[dict[str, Any], ...]
    bundle: Path | None
    report: Path | None


def quickstart(
    *, sut: str, options: Sequence[str], runs: Path, submissions: Path, stop: StopSignal, narrate: Narrator
) -> Quickstart:
    """Run `SCENARIOS` one after the other, then seal and report what they left.

    Args:
        sut, options: the system under test, opened anew for every scenario.
        runs, submissions: where run folders and the bundle go.
        narrate: opens the progress display of a scenario.

    Raises:
        InputError: the SUT or a folder cannot be used.
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
            return Quickstart(tuple(folders), tuple(records), None, None)
    # A name of its own each time: a sealed bundle is never replaced.
    submitter = f"quickstart-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    bundle = submit(folders, submissions, submitter=submitter, division="open")
    return Quickstart(tuple(folders), tuple(records), bundle, bundle / REPORT)
