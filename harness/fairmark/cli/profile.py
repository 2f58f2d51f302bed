"""``fairmark run --profile``: where a system's time goes, as its own profiler sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import click
from click.core import ParameterSource

from fairmark.cli.output import emit_json
from fairmark.errors import InputError

if TYPE_CHECKING:
    from fairmark.study.run import SutChoice

__all__ = ["profile_run", "refuse_with_profile"]

_STOPPED = {"complete": 0, "interrupted": 130, "terminated": 130}
_OF_MEASUREMENTS: Final = ("mode", "ruleset", "repetition", "calibrate", "allow_code_execution")
"""Options of ``fairmark run`` that say something about what is counted."""


def refuse_with_profile(context: click.Context) -> None:
    """Refuse what was asked beside ``--profile`` and would be ignored.

    Raises:
        InputError: there is such an option.
    """
    for name in _OF_MEASUREMENTS:
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise InputError(
                "is a run of its own, which counts nothing",
                source="--profile",
                value=f"--{name.replace('_', '-')}",
            )


def profile_run(
    scenario: str,
    overrides: Sequence[str],
    choice: SutChoice,
    *,
    clock: Literal["real", "virtual"],
    out: Path | None,
    as_json: bool,
) -> int:
    """Profile ``choice`` on the warm-up of ``scenario`` and print its operators; the exit code."""
    from tabulate import tabulate

    from fairmark.cli.progress import ProgressLine
    from fairmark.drive.stop import StopSignal
    from fairmark.report.profile import HEADERS, profile_table, trace_files
    from fairmark.study.prepare import prepare
    from fairmark.study.profile import profile_once
    from fairmark.study.run import default_folder

    prepared = prepare(scenario, overrides, mode="profile")
    folder = out or default_folder(prepared)
    with StopSignal() as stop, ProgressLine(prepared.scenario.name) as progress:
        record, operators = profile_once(
            prepared, choice, out=folder, stop=stop, progress=progress, clock=clock
        )
    traces = [str(path) for path in trace_files(folder)]
    if as_json:
        emit_json({"run": str(folder), "traces": traces, "operators": [asdict(op) for op in operators]})
    else:
        outcome = record["outcome"]
        done = sum(phase["completed"] for phase in outcome["phases"])
        click.echo(f"PROFILED  {prepared.scenario.name}: {done} queries of the warm-up; nothing is counted")
        if outcome["stop_reason"] != "complete":
            click.echo(f"          - ended early: {outcome['stop_reason']} ({outcome['detail']})")
        align = ["left", "left", *("right" for _ in HEADERS[2:])]
        click.echo()
        click.echo(
            tabulate(profile_table(operators), headers=HEADERS, disable_numparse=True, colalign=align)
            if operators
            else "no operator was recorded"
        )
        click.echo()
        for trace in traces:
            click.echo(f"trace   {trace}  (for ui.perfetto.dev or chrome://tracing)")
        click.echo(f"next    fairmark report {folder} --html report.html")
    return _STOPPED.get(record["outcome"]["stop_reason"], 3)
