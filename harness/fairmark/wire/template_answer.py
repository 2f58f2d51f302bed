"""The answer of a server that a template describes: facts at JSON pointers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rfc8785

from fairmark.wire.growing import GrowingAnswer, MalformedError, error_in, number_or
from fairmark.wire.json_text import one_line

__all__ = ["TemplateAnswer"]


class TemplateAnswer(GrowingAnswer):
    """Grows document by document.

    Args:
        fields: ``answer`` or ``events`` of a template (schemas/http-template.schema.json).
    """

    __slots__ = ("_fields", "_ids", "_without_ids")

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__()
        self._fields = fields
        self._ids: list[int] = []
        self._without_ids = False

    def take_document(self, document: Mapping[str, Any], name: bytes) -> tuple[str | None, int | None]:
        """See `GrowingAnswer.take_document`."""
        error = self._at(document, "error")
        if name == b"error" or error not in (None, False):
            self.fail("engine_error", _message(document if error is None else error))
            return "error", None
        self._input = number_or(self._at(document, "input_tokens"), self._input)
        self._output = number_or(self._at(document, "output_tokens"), self._output)
        if "data" in self._fields:
            return self._take_data(self._at(document, "data")), None
        text = self._text(document)
        ids = self._at(document, "token_ids")
        kind, n_tokens = self._take_output(text, ids)
        if kind is not None and self.finish_reason is not None:
            self.flags.add("tokens_after_finish")
        reason = self._reason(document)
        if reason is not None:
            self.finish_reason = reason
            self.ended = self._fields.get("end", "finish_reason") == "finish_reason"
        return (kind or ("role" if reason is None else "finish")), n_tokens

    def _take_data(self, value: Any) -> str | None:
        if value is None:
            return None
        try:
            self.data = rfc8785.dumps(value)
        except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
            raise MalformedError(f"data without an RFC 8785 form: {error}") from error
        self.generated = True
        return "content"

    def _take_output(self, text: str, ids: Any) -> tuple[str | None, int | None]:
        if ids is not None and not (isinstance(ids, list) and all(type(i) is int for i in ids)):
            raise MalformedError("token_ids is not a list of integers")
        if text:
            self.text.append(text)
        if not text and not ids:
            return None, None
        self.generated = True
        if ids is None:
            self._without_ids = True
            return "content", None
        self._ids += ids
        return "content", len(ids)

    def _text(self, document: Mapping[str, Any]) -> str:
        text = self._at(document, "text")
        if text is not None and not isinstance(text, str):
            raise MalformedError(f"the text is not a string: {one_line(repr(text))}")
        return text or ""

    def _reason(self, document: Mapping[str, Any]) -> str | None:
        reason = self._at(document, "finish_reason")
        if reason is not None and not isinstance(reason, str):
            raise MalformedError(f"the finish reason is not a string: {one_line(repr(reason))}")
        renamed: str | None = self._fields.get("finish_reasons", {}).get(reason, reason)
        return renamed or None

    def _at(self, document: Any, field: str) -> Any:
        """What the pointer of ``field`` leads to; None where it leads nowhere, or there is no pointer."""
        pointer: str | None = self._fields.get(field)
        if pointer is None:
            return None
        value = document
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
                value = value[int(key)]
            else:
                return None
        return value

    def ids(self) -> list[int] | None:
        """See `GrowingAnswer.ids`."""
        return self._ids if self._ids and not self._without_ids else None

    def output_tokens(self) -> tuple[int | None, str | None]:
        """See `GrowingAnswer.output_tokens`."""
        ids = self.ids()
        if ids is None:
            return super().output_tokens()
        if self._output is not None and self._output != len(ids):
            self.flags.add("token_counts_differ")
        return len(ids), "ids"


def _message(error: Any) -> str:
    if isinstance(error, dict):
        return error_in(error, b"error") or "an error without a message"
    return one_line(str(error)) or "an error without a message"
