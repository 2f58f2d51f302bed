"""One system put to the whole kit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fairmark.conformance.check import Result
from fairmark.conformance.kit import CHECKS, Kit
from fairmark.study.run import choose_sut

HERE = Path(__file__).parent
Examine = Callable[..., list[Result]]


@pytest.fixture(scope="session")
def examine() -> Examine:
    """``examine(name, *options, plugin=…, patience_s=…)``: what all checks found."""

    def whole(
        name: str, *options: str, plugin: str | Path | None = None, patience_s: float = 60.0
    ) -> list[Result]:
        plugins: Sequence[str] = [] if plugin is None else [str(HERE / plugin)]
        with Kit(choose_sut(name, options, plugins), patience_s=patience_s) as kit:
            return [kit.make(check) for check in CHECKS]

    return whole
