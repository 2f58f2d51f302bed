"""``fairmark run``: one scenario against one system under test."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from fairmark.cli.output import VERDICT_EXIT, code_option, emit_json, json_option, program_runner, set_option

__all__ = ["exit_code", "run"]

RunMode = Literal["performance", "accuracy", "submission"]
Clock = Literal["real", "virtual"]

_STOPPED = {"interrupted": 130, "terminated": 130, "sut_failed": 3}


@click.command(
    epilog="Example: fairmark run smollm2-gsm8k-server --sut http -o base_url=http://localhost:8000"
)
@click.argument("scenario")
@click.option(
    "--sut", "sut_name", required=True, metavar="NAME", help="The system under test (see: fairmark sut list)."
)
@click.option(
    "-o", "options", multiple=True, metavar="NAME=VALUE", help="An option of the system under test."
)
@click.option(
    "-p", "--plugin", "plugins", multiple=True, metavar="MODULE|FILE.py", help="Load this plugin too."
)
@click.option(
    "--mode",
    type=click.Choice(["performance", "accuracy", "submission"]),
    default="performance",
    show_default=True,
    help="submission is accuracy, then performance.",
)
@click.option(
    "--clock",
    type=click.Choice(["real", "virtual"]),
    default="real",
    show_default=True,
    help="virtual runs a simulated system in simulated time; no rule takes that for a measurement.",
)
@set_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="The run folder [default: runs/<utc>-<name>-<digest>]."
)
@click.option(
    "--ruleset", default="fairmark-open-1", show_default=True, help="A shipped ruleset, or a folder of rules."
)
@click.option(
    "--repetition",
    type=click.IntRange(0, 2**31 - 1),
    help="Run this one only, under its own seeds [default: all of settings.repetitions].",
)
@click.option("--calibrate", is_flag=True, help="Measure this client's ceiling anew before the run.")
@click.option(
    "--profile",
    is_flag=True,
    help="Measure nothing: drive the warm-up under the system's own profiler and show where time goes.",
)
@code_option
@json_option
def run(
    scenario: str,
    sut_name: str,
    options: tuple[str, ...],
    plugins: tuple[str, ...],
    mode: RunMode,
    clock: Clock,
    overrides: tuple[str, ...],
    out: Path | None,
    ruleset: str,
    repetition: int | None,
    calibrate: bool,
    allow_code_execution: bool,
    profile: bool,
    as_json: bool,
) -> int:
    """Run SCENARIO and print its verdict first.

    SCENARIO is a TOML file, or the name of a shipped scenario. Ctrl-C stops issuing, waits for what is in
    flight and closes the log; a second Ctrl-C closes at once. With settings.repetitions above 1 the folder
    holds a run folder for each repetition, all of which must pass.
    """
    from fairmark.cli.profile import profile_run, refuse_with_profile
    from fairmark.cli.progress import ProgressLine
    from fairmark.drive.stop import StopSignal
    from fairmark.judge.rules import load_ruleset
    from fairmark.report.series import series_line
    from fairmark.report.text import text_report
    from fairmark.study.prepare import prepare
    from fairmark.study.run import choose_sut, default_folder, run_once
    from fairmark.study.series import run_series

    choice = choose_sut(sut_name, options, plugins)
    if profile:
        refuse_with_profile(click.get_current_context())
        return profile_run(scenario, overrides, choice, clock=clock, out=out, as_json=as_json)
    rules = load_ruleset(ruleset)
    prepared = prepare(scenario, overrides, mode=mode, repetition=repetition or 0)
    folder = out or default_folder(prepared)
    calibration: Literal["fresh", "cached"] = "fresh" if calibrate else "cached"
    run_program = program_runner(allow_code_execution)
    wanted = prepared.repetitions if repetition is None else 1
    if wanted > 1:
        with StopSignal() as stop:
            series, records = run_series(
                scenario,
                overrides,
                choice,
                mode=mode,
                repetitions=wanted,
                out=folder,
                ruleset=rules,
                stop=stop,
                narrate=lambda number: ProgressLine(f"{prepared.scenario.name} {number + 1}/{wanted}"),
                calibration=calibration,
                clock=clock,
                run_program=run_program,
            )
        if as_json:
            emit_json({"run": str(folder), "series": series, "records": records})
        else:
            if len(records) == 1:
                click.echo(series_line(series))
            _say(folder, text_report(records))
        return max(exit_code(records[-1]), VERDICT_EXIT[series["verdict"]])
    with StopSignal() as stop, ProgressLine(prepared.scenario.name) as progress:
        record = run_once(
            prepared,
            choice,
            out=folder,
            ruleset=rules,
            stop=stop,
            progress=progress,
            calibration=calibration,
            clock=clock,
            run_program=run_program,
        )
    if as_json:
        emit_json({"run": str(folder), "record": record})
    else:
        _say(folder, text_report([record]))
    return exit_code(record)


def _say(folder: Path, report: str) -> None:
    click.echo(report)
    click.echo(f"run folder  {folder}")
    click.echo(f"next        fairmark check {folder}")
    click.echo(f"            fairmark report {folder} --html report.html")


def exit_code(record: dict[str, Any]) -> int:
    """The exit code that a run's end and verdict stand for."""
    stopped = _STOPPED.get(record["outcome"]["stop_reason"])
    return VERDICT_EXIT[record["verdict"]["verdict"]] if stopped is None else stopped
