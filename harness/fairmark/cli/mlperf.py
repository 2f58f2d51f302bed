"""``fairmark mlperf``: the border to MLPerf's logs and configuration files."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["mlperf"]


@click.group(epilog="Example: fairmark mlperf read results/server/performance/run_1")
def mlperf() -> None:
    """Read MLPerf result folders and LoadGen configuration files."""


@mlperf.command(epilog="Example: fairmark mlperf read results/server/performance/run_1 --json")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@json_option
def read(folder: Path, as_json: bool) -> int:
    """Recompute and judge what LoadGen logged in FOLDER.

    Exits 1 when the run is not valid, or when a printed value does not follow from the others.
    """
    from fairmark.mlperf.folder import read_folder

    result = read_folder(folder)
    invalid = result["verdict"] != "VALID" or any(f["severity"] == "error" for f in result["findings"])
    if as_json:
        emit_json(result)
        return int(invalid)
    click.echo(f"{result['verdict']}  {folder}  (LoadGen: {result['loadgen_verdict'] or 'not stated'})")
    for finding in result["findings"]:
        click.echo(f"  {finding['severity']:<7} {finding['id']}: {finding['message']}")
    return int(invalid)
