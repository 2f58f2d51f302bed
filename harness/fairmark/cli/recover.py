"""``fairmark recover``: the log of a killed run, closed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["recover"]


@click.command(epilog="Example: fairmark recover runs/20261129T163000Z-gsm8k-server-ab12cd34")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def recover(run: Path, as_json: bool) -> int:
    """Close the log of the killed run in the folder RUN and judge what is there.

    Everything that was stamped is kept; queries that were in flight become failures. The run is INVALID.
    """
    from fairmark.evidence.recover import recover as recover_run
    from fairmark.study.run import judge_run

    recovered = recover_run(run)
    verdict = judge_run(run)["verdict"]
    if as_json:
        emit_json({"run": str(run), **dataclasses.asdict(recovered), "verdict": verdict["verdict"]})
    else:
        click.echo(f"{verdict['verdict']}  {run}: {'; '.join(verdict['reasons'])}")
        click.echo(f"  {recovered.issued} issued, {recovered.completed} completed")
        click.echo(f"  {recovered.aborted} were in flight when it ended")
    return 1
