"""``fairmark samples``: what a sample source holds, and the digest that pins it."""

from __future__ import annotations

from pathlib import Path

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["samples"]


@click.group(epilog="Example: fairmark samples show fairmark:gsm8k-test --prompt question --reference answer")
def samples() -> None:
    """Show sample sources and their digests."""


@samples.command("list", epilog="Example: fairmark samples list")
@json_option
def list_samples(as_json: bool) -> None:
    """List the sample sets that fairmark ships."""
    from fairmark.samples.source import EMBEDDED

    found = [{"source": f"fairmark:{name}", "file_sha256": s.sha256} for name, s in EMBEDDED.items()]
    if as_json:
        emit_json(found)
        return
    for entry in found:
        click.echo(f"{entry['source']}  file sha256 {entry['file_sha256']}")


@samples.command(epilog="Example: fairmark samples show questions.csv --prompt question --rows 3")
@click.argument("source")
@click.option("--prompt", required=True, metavar="COLUMN", help="The column that holds the prompt.")
@click.option("--reference", metavar="COLUMN", help="The column that holds the reference answer.")
@click.option(
    "--input",
    "kind",
    type=click.Choice(["messages", "text", "token_ids", "length", "data"]),
    default="messages",
    show_default=True,
)
@click.option(
    "--rows", type=click.IntRange(min=0), default=2, show_default=True, help="How many rows to show."
)
@json_option
def show(source: str, prompt: str, reference: str | None, kind: str, rows: int, as_json: bool) -> None:
    """Load SOURCE and print its content digest, in the form a scenario pins it.

    SOURCE is fairmark:NAME, a jsonl, csv or parquet file, or hub:ID@COMMIT[:SPLIT].
    """
    from fairmark.samples.library import load_library
    from fairmark.scenario.model import Generation, Samples

    spec = Samples(source=source, prompt=prompt, reference=reference, input=kind)  # type: ignore[arg-type]
    library = load_library(spec, Generation(), base=Path.cwd())
    if as_json:
        emit_json({**library.facts(), "first_rows": [library.row(i) for i in range(min(rows, len(library)))]})
        return
    click.echo(f"{len(library)} rows; in a scenario:\n")
    click.echo(f'[samples]\nsource = "{source}"\nsha256 = "{library.content_sha256}"')
    click.echo(f'prompt = "{prompt}"' + (f'\nreference = "{reference}"' if reference else ""))
    for index in range(min(rows, len(library))):
        click.echo(f"\n{index}: {library.canonical[index]}")
