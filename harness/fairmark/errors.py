"""The errors fairmark raises on purpose, and the exit code each one stands for.

    FairmarkError
    ├── InputError      2    something the user wrote or named cannot be used
    ├── SutError        3    the system under test could not be opened, probed or kept alive
    └── EvidenceError   1    stored evidence is missing, damaged or contradicts itself

Anything else that escapes is a bug and shows a traceback.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

__all__ = ["EvidenceError", "FairmarkError", "InputError", "SutError"]


class FairmarkError(Exception):
    """Any failure that fairmark explains in one line instead of a traceback."""

    exit_code: ClassVar[int] = 1


class InputError(FairmarkError):
    """The user's input cannot be used.

    Args:
        problem: what is wrong, in one clause.
        source: the file, option or command the value came from.
        field: the dotted path of the value inside ``source``.
        value: the offending value, shown with ``repr``.
        accepted: what would have been accepted.
        line: 1-based line number inside ``source``, when it is known.
    """

    exit_code = 2

    def __init__(
        self,
        problem: str,
        *,
        source: str | Path | None = None,
        field: str | None = None,
        value: object = None,
        accepted: str | None = None,
        line: int | None = None,
    ) -> None:
        self.problem = problem
        self.source = None if source is None else str(source)
        self.field = field
        self.value = value
        self.accepted = accepted
        self.line = line
        super().__init__(self._sentence())

    def in_source(self, source: str | Path) -> InputError:
        """The same error with the file it belongs to, if it does not name one yet."""
        return InputError(
            self.problem,
            source=source if self.source is None else self.source,
            field=self.field,
            value=self.value,
            accepted=self.accepted,
            line=self.line,
        )

    def _sentence(self) -> str:
        where = self.source or ""
        if self.line is not None:
            where += f":{self.line}"
        parts = [p for p in (where, self.field) if p]
        text = ": ".join([*parts, self.problem])
        if self.value is not None:
            text += f" (got {self.value!r})"
        if self.accepted:
            text += f"; accepted: {self.accepted}"
        return text


class SutError(FairmarkError):
    """The system under test cannot be used: it does not start, answer or stay alive."""

    exit_code = 3


class EvidenceError(FairmarkError):
    """Stored evidence is missing, damaged or contradicts itself."""

    exit_code = 1
