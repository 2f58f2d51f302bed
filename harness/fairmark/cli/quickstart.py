"""``fairmark quickstart``: what ``make demo`` runs."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["quickstart"]

_NEXT = """\
bundle  {bundle}
report  {bundle}/report.html

next    fairmark audit {bundle}
        fairmark check {bundle} --all
        fairmark run smollm2-gsm8k-server --sut llamacpp --set settings.target_qps=3
        fairmark run smollm2-gsm8k-server --sut http -o base_url=http://HOST:PORT"""


@click.command(epilog="Example: fairmark quickstart --sut http -o base_url=http://localhost:8000")
@click.option("--sut", default="llamacpp", show_default=True, help="The system under test.")
@click.option(
    "-o", "options", multiple=True, metavar="NAME=VALUE", help="An option of the system under test."
)
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option(
    "--submissions", type=click.Path(path_type=Path), default=Path("submissions"), show_default=True
)
@json_option
def quickstart(sut: str, options: tuple[str, ...], runs: Path, submissions: Path, as_json: bool) -> int:
    """Run Offline, SingleStream and Server on the bundled model; judge, seal and report them.

    Takes about four minutes on two cores and needs no network.
    """
    from fairmark.cli.progress import ProgressLine
    from fairmark.cli.run import exit_code
    from fairmark.drive.stop import StopSignal
    from fairmark.report.text import text_report
    from fairmark.study.quickstart import SCENARIOS
    from fairmark.study.quickstart import quickstart as run_all
    from fairmark.study.submit import submit

    with StopSignal() as stop:
        made = run_all(sut=sut, options=options, runs=runs, stop=stop, narrate=ProgressLine)
    if not as_json:
        click.echo(text_report(made.records))
    bundle = None
    if len(made.runs) == len(SCENARIOS):
        # A name of its own each time: a sealed bundle is never replaced.
        submitter = f"quickstart-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        bundle = submit(made.runs, submissions, submitter=submitter, division="open")
    if as_json:
        verdicts = [record["verdict"]["verdict"] for record in made.records]
        runs_made = [str(folder) for folder in made.runs]
        emit_json(
            {"runs": runs_made, "verdicts": verdicts, "bundle": None if bundle is None else str(bundle)}
        )
    elif bundle is not None:
        click.echo(_NEXT.format(bundle=bundle))
    return max(exit_code(record) for record in made.records)
