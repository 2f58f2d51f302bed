"""``fairmark sut``: which systems under test there are, what they take, and whether they keep the rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmark.cli.output import emit_json, json_option
from fairmark.conformance.patience import PATIENCE_S

if TYPE_CHECKING:
    from fairmark.conformance.check import Result
    from fairmark.sut.new import NewShape

_WORDS = {
    "pass": "pass",
    "fail": "FAIL",
    "not_applicable": "not applicable",
    "not_evaluable": "NOT EVALUABLE",
}

__all__ = ["sut"]


@click.group(epilog="Example: fairmark sut describe llamacpp")
def sut() -> None:
    """List, describe, check and begin systems under test."""


@sut.command("list", epilog="Example: fairmark sut list --json")
@json_option
def list_suts(as_json: bool) -> None:
    """List installed plugins. Reads metadata only and imports none of them."""
    from fairmark.sut.plugins import installed_plugins

    plugins = installed_plugins()
    if as_json:
        fields = ("name", "module", "distribution", "version")
        emit_json([{field: getattr(p, field) for field in fields} for p in plugins])
        return
    width = max((len(p.name) for p in plugins), default=0)
    for p in plugins:
        click.echo(f"{p.name:<{width}}  {p.module} ({p.distribution} {p.version})")


@sut.command(epilog="Example: fairmark sut describe http")
@click.argument("name")
@click.option(
    "-p", "--plugin", "plugins", multiple=True, metavar="MODULE|FILE.py", help="Load this plugin too."
)
@json_option
def describe(name: str, plugins: tuple[str, ...], as_json: bool) -> None:
    """Show what the plugin NAME is and which options it takes."""
    import dataclasses
    import inspect

    from fairmark.sut.options import describe_options
    from fairmark.sut.plugins import identity, load_sut, shapes

    cls = load_sut(name, plugins)
    options = describe_options(cls.Options)
    summary = inspect.cleandoc(cls.__doc__ or "").partition("\n")[0]
    if as_json:
        emit_json(
            {
                "name": name,
                "summary": summary,
                "plugin": identity(cls),
                "shapes": shapes(cls),
                "options": [dataclasses.asdict(o) for o in options],
            }
        )
        return
    source = identity(cls)
    click.echo(f"{name}: {summary}")
    click.echo(f"  from {source['module']} ({source['distribution']} {source['version']})")
    click.echo(f"  shapes: {', '.join(shapes(cls))}")
    click.echo("  options (-o NAME=VALUE):" if options else "  it takes no options")
    for option in options:
        default = "required" if option.required else f"default {option.default!r}"
        click.echo(f"    {option.name} ({option.type}; {default})\n        {option.help}")


@sut.command(epilog="Example: fairmark sut check http -o base_url=http://localhost:8000")
@click.argument("name")
@click.option(
    "-o", "options", multiple=True, metavar="NAME=VALUE", help="An option of the system under test."
)
@click.option(
    "-p", "--plugin", "plugins", multiple=True, metavar="MODULE|FILE.py", help="Load this plugin too."
)
@click.option("--only", multiple=True, metavar="ID", help="Make this check only. May be repeated.")
@click.option(
    "--patience-s",
    type=float,
    default=PATIENCE_S,
    show_default=True,
    help="How long a query may take. What takes longer counts as hung; opening may take 30 times as long.",
)
@json_option
def check(
    name: str,
    options: tuple[str, ...],
    plugins: tuple[str, ...],
    only: tuple[str, ...],
    patience_s: float,
    as_json: bool,
) -> int:
    """Run the plugin conformance kit on the system NAME.

    It opens the system a few times, asks short questions through the real driver, and looks at what came
    back. Nothing is kept. Exit code 1 if a check fails or could not be made, which is no pass.
    """
    import dataclasses
    from collections import Counter

    from fairmark.conformance.kit import Kit, choose_checks
    from fairmark.study.run import choose_sut
    from fairmark.sut.options import options_record
    from fairmark.sut.plugins import identity, shapes

    choice = choose_sut(name, options, plugins)
    checks = choose_checks(only)
    results = []

    def say(text: str) -> None:
        click.echo(f"{name}: {text}", err=True)

    with Kit(choice, patience_s=patience_s, say=say) as kit:
        for result in map(kit.make, checks):
            results.append(result)
            if not as_json:
                _print_result(result)
    counts = dict.fromkeys(_WORDS, 0) | Counter(result.outcome for result in results)
    if as_json:
        emit_json(
            {
                "sut": name,
                "plugin": identity(choice.cls),
                "shapes": shapes(choice.cls),
                "options": options_record(choice.options),
                "counts": counts,
                "checks": [dataclasses.asdict(result) for result in results],
            }
        )
    else:
        click.echo(", ".join(f"{number} {_WORDS[outcome].lower()}" for outcome, number in counts.items()))
    return 1 if counts["fail"] or counts["not_evaluable"] else 0


def _print_result(result: Result) -> None:
    click.echo(f"{_WORDS[result.outcome]:<15} {result.id:<19} {result.found}")
    if result.outcome == "fail":
        click.echo(f"{'':<35} guards against: {result.guards}")
        click.echo(f"{'':<35} fix: {result.fix}")


@sut.command(epilog="Example: fairmark sut new my-engine --shape async")
@click.argument("name")
@click.option(
    "--shape",
    type=click.Choice(["sync", "async", "batch", "callback"]),
    default="sync",
    show_default=True,
    help="What the engine has: a blocking call, an event loop, batches, or threads of its own.",
)
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to make its folder [default: here].",
)
def new(name: str, shape: NewShape, parent: Path) -> None:
    """Write a plugin package NAME to begin with. It installs and passes the conformance kit as written."""
    from fairmark.sut.new import new_plugin

    folder = new_plugin(name, shape, parent)
    click.echo(
        f"{folder} is ready. Next:\n  cd {folder} && pip install -e '.[test]' && fairmark sut check {name}"
    )
