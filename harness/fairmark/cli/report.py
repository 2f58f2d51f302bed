"""``fairmark report``: runs as a table and as one HTML page."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["report"]


@click.command(epilog="Example: fairmark report runs/* --html report.html")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a self-contained page here, too."
)
@json_option
def report(paths: tuple[Path, ...], html: Path | None, as_json: bool) -> None:
    """Print the verdicts and a table of the runs, bundles or folders of runs at PATHS."""
    from tabulate import tabulate

    from fairmark.bundle.runs import runs_in
    from fairmark.errors import InputError
    from fairmark.hooks import Section, report_sections
    from fairmark.report.html import html_report
    from fairmark.report.run_data import load_run
    from fairmark.report.text import text_report

    runs = [load_run(folder) for folder in runs_in(paths)]
    added = list(report_sections([run.record for run in runs]))
    for problem in (item for item in added if isinstance(item, InputError)):
        click.echo(f"fairmark: warning: {problem}", err=True)
    sections = [item for item in added if isinstance(item, Section)]
    if html is not None:
        try:
            html.write_text(html_report(runs, sections), encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", source="--html", value=str(html)
            ) from error
    if as_json:
        emit_json(
            {"html": None if html is None else str(html), "records": [dict(run.record) for run in runs]}
        )
        return
    click.echo(text_report([run.record for run in runs]))
    for section in sections:
        click.echo(f"\n{section.title}\n{tabulate(section.rows, section.head, disable_numparse=True)}")
    if html is not None:
        click.echo(f"\nreport  {html}")
