"""The kit inside pytest: ``pytest --fairmark-sut NAME`` adds one test for each check.

pytest loads this module in every run of an environment that has fairmark; it imports the kit only when asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from fairmark.conformance.patience import PATIENCE_S

if TYPE_CHECKING:
    from fairmark.conformance.check import Check
    from fairmark.conformance.kit import Kit

__all__ = ["pytest_addoption", "pytest_collection_modifyitems"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options that start with ``--fairmark``."""
    group = parser.getgroup("fairmark", "the conformance kit of fairmark's plugins")
    group.addoption("--fairmark-sut", metavar="NAME", help="check this system, one test for each check")
    group.addoption(
        "--fairmark-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the system; may be repeated",
    )
    group.addoption(
        "--fairmark-plugin",
        action="append",
        default=[],
        metavar="MODULE|FILE.py",
        help="load this plugin too; may be repeated",
    )
    group.addoption(
        "--fairmark-patience-s",
        type=float,
        default=PATIENCE_S,
        metavar="SECONDS",
        help="how long a query may take; opening, 30 times as long (default: %(default)s)",
    )


# First, so that -k and -m choose among the checks too.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add the checks, if a system is named."""
    name = config.getoption("--fairmark-sut")
    if name is None:
        return
    from fairmark.conformance.kit import CHECKS, Kit
    from fairmark.errors import FairmarkError
    from fairmark.study.run import choose_sut

    try:
        choice = choose_sut(
            name, config.getoption("--fairmark-option"), config.getoption("--fairmark-plugin")
        )
        kit = Kit(choice, patience_s=config.getoption("--fairmark-patience-s"))
    except FairmarkError as error:
        raise pytest.UsageError(str(error)) from error
    config.add_cleanup(lambda: kit.__exit__(None, None, None))
    checks = _Checks.from_parent(
        session, name=f"fairmark-{name}", nodeid=f"fairmark-{name}", path=config.rootpath
    )
    items.extend(_CheckItem.from_parent(checks, name=check.id, check=check, kit=kit) for check in CHECKS)


class _Checks(pytest.Collector):
    """What the checks of one system have for a parent."""

    def collect(self) -> Iterator[pytest.Item]:
        """They are made where they are added."""
        return iter(())


class _CheckError(Exception):
    """A check failed, or could not be made."""


class _CheckItem(pytest.Item):
    """One check."""

    def __init__(self, *, check: Check, kit: Kit, **given: Any) -> None:
        super().__init__(**given)
        self._check = check
        self._kit = kit

    def runtest(self) -> None:
        """Make it. What is not applicable is skipped; what is not evaluable is no pass, and fails."""
        from fairmark.errors import FairmarkError

        try:
            result = self._kit.make(self._check)
        except FairmarkError as error:
            raise _CheckError(str(error)) from error
        if result.outcome == "fail":
            raise _CheckError(f"{result.found}\nguards against: {result.guards}\nfix: {result.fix}")
        if result.outcome == "not_evaluable":
            raise _CheckError(f"not evaluable: {result.found}")
        if result.outcome == "not_applicable":
            pytest.skip(f"not applicable: {result.found}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The finding, without a traceback through the kit."""
        if isinstance(excinfo.value, _CheckError):
            return f"{self.name}: {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Where it is, for the report."""
        return self.path, None, f"{self.parent.name if self.parent else ''}::{self.name}"
