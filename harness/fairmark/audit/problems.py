"""The findings of an audit as they come together."""

from __future__ import annotations

from collections.abc import Iterable

from fairmark.bundle.findings import Finding, has_errors

__all__ = ["Problems"]


class Problems:
    """Collects findings; every check appends to the same collection and reads nothing from it."""

    def __init__(self) -> None:
        self._found: list[Finding] = []

    def error(self, finding: str, file: str, message: str, fix: str) -> None:
        """Note something that the run or bundle does not show although it claims it."""
        self._found.append(Finding(finding, "error", file, message, fix))

    def warning(self, finding: str, file: str, message: str, fix: str) -> None:
        """Note something that could not be checked, or that a reader should know."""
        self._found.append(Finding(finding, "warning", file, message, fix))

    def extend(self, findings: Iterable[Finding]) -> None:
        """Take over the findings of another check."""
        self._found.extend(findings)

    @property
    def has_errors(self) -> bool:
        """Whether any finding so far is at error level."""
        return has_errors(self._found)

    def below(self, prefix: str) -> list[Finding]:
        """The findings, with ``prefix`` put before the files they name."""
        return [Finding(f.id, f.severity, f"{prefix}{f.file}", f.message, f.fix) for f in self._found]
