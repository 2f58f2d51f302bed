"""``fairmark quickstart``: what ``make demo`` runs."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["quickstart"]


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
    from fairmark.study.quickstart import quickstart as run_all

    with StopSignal() as stop:
        made = run_all(
            sut=sut, options=options, runs=runs, submissions=submissions, stop=stop, narrate=ProgressLine
        )
    if as_json:
        paths = {"bundle": made.bundle, "report": made.report}
        emit_json(
            {
                "runs": [str(folder) for folder in made.runs],
                **{name: None if path is None else str(path) for name, path in paths.items()},
                "verdicts": [record["verdict"]["verdict"] for record in made.records],
            }
        )
    else:
        click.echo(text_report(made.records))
        if made.bundle is not None:
            click.echo(f"bundle  {made.bundle}\nreport  {made.report}\n")
            click.echo(f"next    fairmark audit {made.bundle}")
            click.echo(f"        fairmark check {made.bundle} --all")
            click.echo("        fairmark run smollm2-gsm8k-server --sut llamacpp --set settings.target_qps=3")
            click.echo("        fairmark run smollm2-gsm8k-server --sut http -o base_url=http://HOST:PORT")
    return max(exit_code(record) for record in made.records)
