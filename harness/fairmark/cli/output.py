"""What all commands share: strict JSON, exit codes of verdicts and findings, common options."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = [
    "VERDICT_EXIT",
    "code_option",
    "counted",
    "emit_json",
    "json_option",
    "program_runner",
    "set_option",
]

VERDICT_EXIT = {"VALID": 0, "INVALID": 1, "INSUFFICIENT": 1}
"""Exit code of each verdict."""

Command = TypeVar("Command", bound=Callable[..., Any])


def counted(number: int, noun: str) -> str:
    """``1 run``, ``2 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def emit_json(value: Any) -> None:
    """Print ``value`` as strict JSON: no NaN, no Infinity, keys in the given order."""
    click.echo(json.dumps(value, allow_nan=False, ensure_ascii=False, indent=2))


def json_option(command: Command) -> Command:
    """The ``--json`` flag."""
    return click.option("--json", "as_json", is_flag=True, help="Print machine-readable JSON.")(command)


def code_option(command: Command) -> Command:
    """The ``--allow-code-execution`` flag."""
    return click.option(
        "--allow-code-execution",
        is_flag=True,
        help="Run answers that are programs, to score them (pass@1). Without it they have no score.",
    )(command)


def program_runner(allowed: bool) -> Callable[[str], bool] | None:
    """What runs answers that are programs: nothing, unless the user allowed it."""
    if not allowed:
        return None
    from fairmark.study.sandbox import locks, run_program

    click.echo(f"note: {locks()}", err=True)
    return run_program


def set_option(command: Command) -> Command:
    """The repeatable ``--set path=value`` option."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="PATH=VALUE",
        help="Change a field of the scenario. Anything but settings.* changes its digest.",
    )(command)
