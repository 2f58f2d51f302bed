"""``--help``: fast, complete, and with an example everywhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest

from fairmark.cli import cli


def commands(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            yield from commands(sub, (*path, name))


ALL = list(commands(cli))


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "fairmark" for path, _ in ALL])
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help
    assert command.epilog is not None
    example = command.epilog.partition(": ")[2]
    assert example.startswith(" ".join(("fairmark", *path)))


def test_the_summaries_in_the_overview_are_those_of_the_commands() -> None:
    from fairmark.cli import _COMMANDS

    assert set(_COMMANDS) == {path[0] for path, _ in ALL if path}
    assert all(summary.endswith(".") for _, _, summary in _COMMANDS.values())


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from fairmark.cli import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'pyarrow', 'scipy', 'datasets', 'pandas', 'jsonschema', 'tqdm', 'uvloop'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
