"""``fairmark sut``: which systems under test there are, and what they take."""

from __future__ import annotations

import click

from fairmark.cli.output import emit_json, json_option

__all__ = ["sut"]


@click.group(epilog="Example: fairmark sut describe llamacpp")
def sut() -> None:
    """List and describe systems under test."""


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
