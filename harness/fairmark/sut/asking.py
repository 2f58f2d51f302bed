"""What a plugin in this process is asked for: whatever it raises or gives wrongly is its failure."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from fairmark.errors import FairmarkError, SutError
from fairmark.sut.api import SUT, Endpoint, WireSUT

__all__ = ["ask", "claims_of", "endpoints_of"]

T = TypeVar("T")


def ask(what: str, call: Callable[[], T]) -> T:
    """The result of ``call``, which asks the plugin for ``what``.

    Raises:
        FairmarkError: the plugin explained what is wrong.
        SutError: it raised something else, or wanted to end the process.
    """
    try:
        return call()
    except FairmarkError:
        raise
    except (Exception, SystemExit) as error:
        raise SutError(f"{what}: {type(error).__name__}: {error}") from error


def claims_of(sut: SUT) -> dict[str, Any]:
    """What ``sut`` says about itself, as plain JSON values.

    Raises:
        FairmarkError: see `ask`; also for what JSON cannot hold, such as NaN.
    """

    def plain() -> dict[str, Any]:
        claims: dict[str, Any] = json.loads(json.dumps(dict(sut.describe()), allow_nan=False))
        return claims

    return ask("describe", plain)


def endpoints_of(sut: WireSUT) -> list[Endpoint]:
    """The endpoints of ``sut``, at least one.

    Raises:
        FairmarkError: see `ask`.
        SutError: it names none, or something that is no `Endpoint`.
    """
    endpoints = ask("endpoints", lambda: list(sut.endpoints()))
    if not endpoints:
        raise SutError("the system under test names no endpoint")
    wrong = [endpoint for endpoint in endpoints if not isinstance(endpoint, Endpoint)]
    if wrong:
        raise SutError(f"endpoints: gives a {type(wrong[0]).__name__} for an Endpoint")
    return endpoints
