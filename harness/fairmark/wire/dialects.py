"""The protocols that fairmark itself can speak and read, by name.

A dialect is a pair of pure functions: requests are rendered before a run, stored responses are decoded after
it, and again by every audit. Sockets, pacing and stamps belong to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from fairmark.errors import InputError
from fairmark.samples.sample import Sample
from fairmark.wire.openai import OpenAIChat, OpenAICompletions, OpenAIEmbeddings, OpenAIResponses
from fairmark.wire.response import Read, Response
from fairmark.wire.template import TEMPLATE, JsonTemplate

__all__ = ["DIALECTS", "Dialect", "dialect"]


class Dialect(Protocol):
    """One protocol."""

    @property
    def name(self) -> str:
        """The name in records and options."""

    @property
    def path(self) -> str:
        """The path of the endpoint on a server without a prefix, such as ``/v1/completions``."""

    def render(
        self, sample: Sample, *, model: str, stream: bool, extra: Mapping[str, Any] = MappingProxyType({})
    ) -> bytes:
        """The request body for ``sample``: RFC 8785 JSON, so equal requests have equal bytes.

        Args:
            extra: fields added to the body, such as a server's switch for its prompt cache.

        Raises:
            InputError: the sample has no prompt of a kind that this protocol can carry, or ``extra``
                names a field that the scenario decides.
        """

    def decode(self, reads: Sequence[Read], *, closed: bool, stream: bool | None = None) -> Response:
        """Read a stored response, whatever its bytes are.

        Args:
            reads: its socket reads in order.
            closed: the peer closed the connection cleanly after the last read.
            stream: whether a stream was asked for; it decides only where the content type does not.
        """


DIALECTS: Final[Mapping[str, Dialect]] = MappingProxyType(
    {
        entry.name: entry
        for entry in (OpenAIChat(), OpenAICompletions(), OpenAIResponses(), OpenAIEmbeddings())
    }
)
"""The dialects of the core package that need no template, by name."""


def dialect(name: str, template: Mapping[str, Any] | None = None) -> Dialect:
    """The dialect called ``name``.

    Args:
        template: what the dialect ``json-template`` is made of.

    Raises:
        InputError: there is none, or the template breaks its schema.
    """
    if name == TEMPLATE and template is not None:
        return JsonTemplate(template)
    try:
        return DIALECTS[name]
    except KeyError:
        raise InputError(
            "there is no such dialect",
            field="dialect",
            value=name,
            accepted=f"{', '.join(DIALECTS)}, or {TEMPLATE} with a template",
        ) from None
