"""All checks, and how one system is put to them."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from fairmark.conformance import answer_checks, contract_checks, plugin_checks, token_checks
from fairmark.conformance.check import Check, Result, irrelevant
from fairmark.conformance.patience import PATIENCE_S
from fairmark.conformance.subject import Subject
from fairmark.errors import FairmarkError, InputError
from fairmark.study.run import SutChoice

__all__ = ["CHECKS", "Kit", "choose_checks"]

CHECKS: Final[tuple[Check, ...]] = (
    *plugin_checks.CHECKS,
    *answer_checks.CHECKS,
    *contract_checks.CHECKS,
    *token_checks.CHECKS,
)


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


class Kit:
    """The kit for one system, as a context manager; its runs are made when a check first needs them.

    Args:
        patience_s: how long a query may take.
        say: called with what is going on.

    Raises:
        InputError: the patience is no time.
    """

    def __init__(
        self,
        choice: SutChoice,
        *,
        patience_s: float = PATIENCE_S,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not 0 < patience_s < math.inf:
            raise InputError(
                "is not a time",
                source="--patience-s",
                value=patience_s,
                accepted="a number of seconds above 0",
            )
        self._folder = tempfile.TemporaryDirectory(prefix="fairmark-check-")
        self._subject = Subject(choice, Path(self._folder.name), patience_s=patience_s, say=say)
        self._unusable: FairmarkError | None = None

    def __enter__(self) -> Kit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def make(self, check: Check) -> Result:
        """Make one check.

        Raises:
            InputError: the system cannot be driven as it is.
            SutError: the system does not open. It is not opened again: every later check raises the same.
        """
        if self._unusable is not None:
            raise self._unusable
        fits = self._subject.kind in check.kinds
        try:
            found = check.judge(self._subject) if fits else irrelevant(f"only {_names(check)} have this")
        except FairmarkError as error:
            self._unusable = error
            raise
        return Result(check.id, check.guards, found.outcome, found.found, check.fix)


_KINDS: Final = {
    "in_process": "systems in the driver's process",
    "wire": "servers",
    "sim": "simulated systems",
}


def _names(check: Check) -> str:
    return " and ".join(_KINDS[kind] for kind in check.kinds)
