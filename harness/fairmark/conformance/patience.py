"""How long the kit waits."""

from __future__ import annotations

from typing import Final

__all__ = ["OPEN_FACTOR", "PATIENCE_S"]

PATIENCE_S: Final = 60.0
"""How long a query may take, unless the user says otherwise."""

OPEN_FACTOR: Final = 30
"""Importing and opening may take so many times as long: engines load a model for long."""
