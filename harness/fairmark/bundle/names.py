"""Names that become folders of a bundle."""

from __future__ import annotations

import re
from typing import Final

from fairmark.errors import InputError

__all__ = ["DIVISIONS", "checked_division", "checked_name", "ruleset_fits"]

DIVISIONS: Final = ("closed", "open")
"""Closed: the reference model and data under the strict rules. Open: anything, declared."""

# Portable: no separators, no leading dot (hidden, or ".."), nothing that a shell or Windows minds.
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")


def checked_name(value: str, field: str) -> str:
    """``value``, if it can be a folder name everywhere.

    Raises:
        InputError: it is empty, too long, or holds other characters.
    """
    if _NAME.fullmatch(value) is None:
        raise InputError(
            "cannot be a folder name",
            field=field,
            value=value,
            accepted="1 to 64 letters, digits, dots, dashes, underscores; a letter or digit at each end",
        )
    return value


def checked_division(value: str) -> str:
    """``value``, if it is a division.

    Raises:
        InputError: it is not.
    """
    if value not in DIVISIONS:
        raise InputError("is not a division", field="division", value=value, accepted=" or ".join(DIVISIONS))
    return value


def ruleset_fits(ruleset: str, division: str) -> bool:
    """Whether runs judged by ``ruleset`` may be in ``division``: closed takes closed rules only."""
    return division != "closed" or "-closed-" in ruleset
