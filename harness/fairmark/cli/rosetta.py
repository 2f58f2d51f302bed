"""``fairmark rosetta``: what other tools would have printed from the same evidence."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["rosetta"]


@click.command(
    epilog="Example: fairmark rosetta runs/20261129T163000Z-gsm8k-server-ab12cd34 --tool vllm --tool guidellm"
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--tool", "tools", multiple=True, metavar="NAME", help="Only this tool; repeatable.")
@click.option(
    "--phase",
    type=click.Choice(["performance", "accuracy"]),
    default="performance",
    show_default=True,
    help="The counted phase to read.",
)
@json_option
def rosetta(run: Path, tools: tuple[str, ...], phase: str, as_json: bool) -> None:
    """Print what LoadGen, vLLM's bench, guidellm and others would have reported for RUN, and why they differ.

    RUN is the folder of one run. Every figure is recomputed from its evidence by the tool's own formula.
    """
    from fairmark.bundle.runs import runs_in
    from fairmark.errors import InputError
    from fairmark.report.run_data import load_run
    from fairmark.study.rosetta.table import rosetta as recompute
    from fairmark.study.rosetta.table import rosetta_document, rosetta_text

    folders = runs_in([run])
    if len(folders) > 1:
        raise InputError(
            f"holds {len(folders)} runs", field="RUN", value=str(run), accepted="the folder of one run"
        )
    data = load_run(folders[0])
    result = recompute(data.evidence, data.record, phase=phase, tools=tools)
    if as_json:
        emit_json(rosetta_document(result))
    else:
        click.echo(rosetta_text(result))
