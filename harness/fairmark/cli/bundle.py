"""``fairmark bundle``: runs, sealed for others to check."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["bundle"]


@click.command(epilog="Example: fairmark bundle runs/* --submitter acme --division open --out submissions")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--submitter", required=True, help="Who hands it in; becomes a folder name.")
@click.option("--division", required=True, help="open or closed.")
@click.option(
    "--system",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="The system description, a JSON file [default: what the runs observed of this host].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("submissions"),
    show_default=True,
    help="Where bundles go.",
)
@json_option
def bundle(
    runs: tuple[Path, ...], submitter: str, division: str, system: Path | None, out: Path, as_json: bool
) -> None:
    """Seal RUNS into OUT/<submitter>/<division>/<system>, with a manifest and a report."""
    from fairmark.bundle.manifest import MANIFEST
    from fairmark.bundle.run_folder import load_record
    from fairmark.bundle.runs import runs_in
    from fairmark.bundle.tree import file_sha256
    from fairmark.study.submit import submit

    folders = runs_in(runs)
    made = submit(folders, out, submitter=submitter, division=division, system=system)
    digest = file_sha256(made / MANIFEST)
    for folder in folders:
        verdict = load_record(folder)["verdict"]["verdict"]
        if verdict != "VALID":
            click.echo(f"note: sealed a run that is {verdict}: {folder}", err=True)
    if as_json:
        emit_json({"bundle": str(made), "manifest_sha256": digest})
        return
    click.echo(f"bundle    {made}\nmanifest  sha256 {digest}\nnext      fairmark audit {made}")
