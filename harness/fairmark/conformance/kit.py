"""All checks, and how they are made of one system."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from fairmark.conformance import answer_checks, contract_checks, plugin_checks, token_checks
from fairmark.conformance.check import Check, Finding, Result, irrelevant
from fairmark.conformance.subject import Subject
from fairmark.errors import InputError
from fairmark.study.run import SutChoice

__all__ = ["CHECKS", "PATIENCE_S", "check_sut", "choose_checks", "make_check", "make_subject"]

CHECKS: Final[tuple[Check, ...]] = (
    *plugin_checks.CHECKS,
    *answer_checks.CHECKS,
    *contract_checks.CHECKS,
    *token_checks.CHECKS,
)

PATIENCE_S: Final = 60.0
"""How long a query may take, unless the user says otherwise."""


def choose_checks(only: Sequence[str]) -> Sequence[Check]:
    """The checks with the ids ``only``; all of them if there are none.

    Raises:
        InputError: there is no such check.
    """
    known = {check.id: check for check in CHECKS}
    for name in only:
        if name not in known:
            raise InputError("there is no such check", source="--only", value=name, accepted=", ".join(known))
    return [known[name] for name in dict.fromkeys(only)] or CHECKS


def make_check(check: Check, subject: Subject) -> Result:
    """Make one check of ``subject``.

    Raises:
        InputError: the system cannot be driven as it is.
        SutError: the system does not open.
    """
    found = check.judge(subject) if subject.kind in check.kinds else _not_for(check, subject)
    return Result(check.id, check.guards, found.outcome, found.found, check.fix)


def _not_for(check: Check, subject: Subject) -> Finding:
    names = {
        "in_process": "systems in the driver's process",
        "wire": "servers",
        "sim": "simulated systems",
    }
    return irrelevant(f"this is for {' and '.join(names[kind] for kind in check.kinds)}")


def check_sut(
    choice: SutChoice,
    *,
    only: Sequence[str] = (),
    patience_s: float = PATIENCE_S,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Result]:
    """Make the checks, one after the other; runs are made when a check first needs them.

    Args:
        only: ids of checks; none means all.
        patience_s: how long a query may take.
        say: called with what is going on.

    Raises:
        InputError: there is no such check, or the system cannot be driven as it is.
        SutError: the system does not open.
    """
    checks = choose_checks(only)
    with tempfile.TemporaryDirectory(prefix="fairmark-check-") as folder:
        subject = make_subject(choice, Path(folder), patience_s=patience_s, say=say)
        for check in checks:
            yield make_check(check, subject)


def make_subject(
    choice: SutChoice, folder: Path, *, patience_s: float = PATIENCE_S, say: Callable[[str], None]
) -> Subject:
    """The subject of all checks.

    Raises:
        InputError: the patience is no time.
    """
    if not 0 < patience_s < float("inf"):
        raise InputError("is not a time", source="--patience-s", value=patience_s, accepted="seconds above 0")
    return Subject(choice, folder, patience_s=patience_s, say=say)
