"""What a check is, and what it can find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from fairmark.conformance.subject import Kind, Subject

__all__ = [
    "EVERYTHING",
    "IN_PROCESS",
    "Check",
    "Finding",
    "Outcome",
    "Result",
    "cannot",
    "failed",
    "irrelevant",
    "passed",
]

Outcome = Literal["pass", "fail", "not_applicable", "not_evaluable"]

EVERYTHING: Final[tuple[Kind, ...]] = ("in_process", "wire", "sim")
IN_PROCESS: Final[tuple[Kind, ...]] = ("in_process",)


@dataclass(frozen=True, slots=True)
class Finding:
    """An outcome, and what was seen, in words."""

    outcome: Outcome
    found: str


def passed(found: str) -> Finding:
    """The system does what the check asks for."""
    return Finding("pass", found)


def failed(found: str) -> Finding:
    """The system does not."""
    return Finding("fail", found)


def irrelevant(reason: str) -> Finding:
    """The check asks for something that this system does not have."""
    return Finding("not_applicable", reason)


def cannot(reason: str) -> Finding:
    """The check could not be made. That is no pass."""
    return Finding("not_evaluable", reason)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a plugin must do.

    Attributes:
        id: its name, stable.
        guards: what goes wrong in results without it.
        fix: what to do when it fails.
        judge: looks at the subject, and makes it do what it needs to see.
        kinds: which kinds of systems it is for.
    """

    id: str
    guards: str
    fix: str
    judge: Callable[[Subject], Finding]
    kinds: tuple[Kind, ...] = EVERYTHING


@dataclass(frozen=True, slots=True)
class Result:
    """What one check found."""

    id: str
    guards: str
    outcome: Outcome
    found: str
    fix: str
