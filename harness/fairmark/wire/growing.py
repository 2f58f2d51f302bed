"""What all answers have in common while they are put together from the documents of a response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from fairmark.wire.json_text import NotJsonError, loads, one_line

__all__ = ["GrowingAnswer", "MalformedError", "error_in", "number_or", "string_in"]


class MalformedError(ValueError):
    """A document is JSON and still not what its protocol promises."""


class GrowingAnswer(ABC):
    """Grows document by document.

    Attributes:
        data: an answer that is not text.
        generated: whether any output was seen.
        ended: whether the protocol's own mark of the end was seen.
    """

    __slots__ = (
        "_cached",
        "_input",
        "_output",
        "data",
        "ended",
        "failure",
        "failure_detail",
        "finish_reason",
        "flags",
        "generated",
        "reasoning",
        "text",
    )

    def __init__(self) -> None:
        self.text: list[str] = []
        self.reasoning: list[str] = []
        self.data: bytes | None = None
        self.finish_reason: str | None = None
        self.failure: str | None = None
        self.failure_detail: str | None = None
        self.flags: set[str] = set()
        self.generated = False
        self.ended = False
        self._input: int | None = None
        self._output: int | None = None
        self._cached: int | None = None

    def take(self, data: bytes, name: bytes) -> tuple[str | None, int | None]:
        """Add one document; ``name`` is that of its event, empty where it has none.

        Returns:
            The kind of the event, and the number of tokens in it where the wire says that. The kind is None
            for a document that says nothing, such as a keep-alive object.
        """
        try:
            document = loads(data)
            if not isinstance(document, dict):
                raise MalformedError(f"not an object: {one_line(str(document))}")
            return self.take_document(document, name)
        except (NotJsonError, MalformedError) as error:
            self.fail("malformed", f"{one_line(str(error))}; in: {one_line(data.decode('utf-8', 'replace'))}")
            return "error", None

    @abstractmethod
    def take_document(self, document: Mapping[str, Any], name: bytes) -> tuple[str | None, int | None]:
        """Add one document that is a JSON object; see `take`.

        Raises:
            MalformedError: it is not what the protocol promises.
        """

    def take_alike(self, data: Sequence[bytes], names: Sequence[bytes], start: int) -> int:
        """Add the documents from ``start`` on that are known to hold some text and nothing else.

        Same result as `take` with each of them, only faster: where a protocol has no faster way, none are.

        Returns:
            How many these are; each is of kind content, without a number of tokens.
        """
        return 0

    def fail(self, kind: str, detail: str) -> None:
        """Note a failure; the first one stays."""
        if self.failure is None:
            self.failure, self.failure_detail = kind, detail

    def ids(self) -> list[int] | None:
        """The generated token ids, when every event with tokens gave them."""
        return None

    def output_tokens(self) -> tuple[int | None, str | None]:
        """How many tokens were generated, and whether ids or usage say so."""
        return self._output, None if self._output is None else "usage"

    def input_tokens(self) -> tuple[int | None, str | None]:
        """How many tokens the prompt has, and whether ids or usage say so."""
        return self._input, None if self._input is None else "usage"

    def cached_tokens(self) -> int | None:
        """How many prompt tokens came from the server's prefix cache, as it says."""
        return self._cached


def error_in(document: Mapping[str, Any], name: bytes) -> str | None:
    """The error message when the document is an error, in any of the forms that servers use."""
    error = document.get("error")
    if not error:
        if document.get("object") != "error" and name != b"error":
            return None
        error = document
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        error = error["message"]
    return one_line(str(error)) or "an error without a message"


def string_in(holder: Mapping[str, Any], name: str) -> str:
    """The string called ``name``, empty where there is none.

    Raises:
        MalformedError: it is something else.
    """
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedError(f"{name} is not a string: {value!r}")
    return value


def number_or(value: Any, otherwise: int | None) -> int | None:
    """A count of tokens; what is not one says nothing."""
    return value if type(value) is int and value >= 0 else otherwise
