"""What a check of a bundle found: one sentence, the file it is about, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Severity", "has_errors"]

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        id: a stable name, ``stage.what``; docs/bundle.md lists them all.
        severity: an ``error`` means that the bundle or run does not show what it claims.
        file: the file it is about, relative to the checked folder, with forward slashes.
        message: one sentence.
        fix: what would make it go away.
    """

    id: str
    severity: Severity
    file: str
    message: str
    fix: str


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any finding is at error level."""
    return any(finding.severity == "error" for finding in findings)
