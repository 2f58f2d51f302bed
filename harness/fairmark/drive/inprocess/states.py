"""States of a sample in a worker that holds the system: one byte each, read and set in one step."""

from __future__ import annotations

from typing import Final

__all__ = ["BEGUN", "ENDED", "GIVEN_UP", "ISSUED", "PLANNED"]

PLANNED: Final = 0
ISSUED: Final = 1
BEGUN: Final = 2
ENDED: Final = 3
GIVEN_UP: Final = 4
"""`BEGUN` has had a chunk, `GIVEN_UP` was ended by the driver."""
