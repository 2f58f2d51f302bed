"""The command line: parse, call one function, print, exit.

Commands are imported when they are used, so that ``fairmark --help`` stays fast.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, NoReturn

import click

from fairmark.errors import FairmarkError

__all__ = ["cli", "main"]

# name -> (module, attribute, one line for --help)
_COMMANDS: dict[str, tuple[str, str, str]] = {
    "quickstart": (
        "quickstart",
        "quickstart",
        "Run three scenarios on the bundled model; seal and report them.",
    ),
    "run": ("run", "run", "Run a scenario against a system under test."),
    "plan": ("plan", "plan", "Show which samples a run sends, and when."),
    "check": ("check", "check", "Judge a run or a bundle by a ruleset, rule by rule."),
    "audit": ("check", "audit", "Recompute everything in a bundle or run from its evidence."),
    "bundle": ("bundle", "bundle", "Seal runs into a submission bundle."),
    "verify": ("check", "verify", "Check a bundle's files against its manifest."),
    "report": ("report", "report", "Print a table and write an HTML page for runs or a bundle."),
    "rosetta": (
        "rosetta",
        "rosetta",
        "Show what other tools would have printed for a run, and why they differ.",
    ),
    "recover": ("recover", "recover", "Close the log of a run that was killed."),
    "samples": ("samples", "samples", "Show sample sources and their digests."),
    "sut": ("sut", "sut", "List, describe, check and begin systems under test."),
    "mlperf": ("mlperf", "mlperf", "Read MLPerf result folders and LoadGen configuration files."),
}


class _LazyGroup(click.Group):
    """A group whose commands are imported only when one of them is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"fairmark.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: fairmark quickstart",
)
@click.version_option(package_name="fairmark", message="fairmark %(version)s")
def cli() -> None:
    """A conformance harness for inference systems.

    Drives seeded traffic against a system under test, keeps the evidence, recomputes every number from it,
    judges runs by readable rules and seals bundles that anyone can check.

    Exit codes: 0 valid or ok; 1 ran, but INVALID, INSUFFICIENT or findings; 2 bad input or usage; 3 the
    system under test failed; 130 interrupted, evidence kept.
    """


def main() -> NoReturn:
    """Run the command line and exit with the code that the outcome stands for."""
    try:
        code: Any = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except FairmarkError as error:
        click.echo(f"fairmark: error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`fairmark plan … | head`): nothing is left to say.
        sys.stderr.close()
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)
