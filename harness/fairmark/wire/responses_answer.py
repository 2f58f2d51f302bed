"""The answer of ``/v1/responses``, put together from its typed events or from one whole document.

Names of events and fields: OpenAI's API reference, "Responses: streaming events" and "The response object".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fairmark.wire.growing import GrowingAnswer, MalformedError, error_in, number_or, string_in

__all__ = ["ResponsesAnswer"]

_DELTAS: Final[Mapping[str, str]] = {
    "response.output_text.delta": "content",
    "response.refusal.delta": "content",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "tool",
    "response.custom_tool_call_input.delta": "tool",
    "response.mcp_call_arguments.delta": "tool",
    "response.code_interpreter_call_code.delta": "tool",
}
"""What the string ``delta`` of an event is part of."""

_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "output_text": ("content", "text"),
    "refusal": ("content", "refusal"),
    "reasoning_text": ("reasoning", "text"),
    "summary_text": ("reasoning", "text"),
}
"""For each type of a part of a whole answer: what it is, and the field that holds its text."""

_REASONS: Final[Mapping[str, str]] = {"max_output_tokens": "length"}
"""Reasons to be incomplete that have another name in the chat and completions APIs."""

_Taken = tuple[str | None, int | None]


class ResponsesAnswer(GrowingAnswer):
    """Grows event by event; what repeats earlier events, such as ``….done``, says nothing new."""

    __slots__ = ()

    def take_document(self, document: Mapping[str, Any], name: bytes) -> _Taken:
        """See `GrowingAnswer.take_document`."""
        kind = string_in(document, "type")
        if document.get("object") == "response":
            return self._take_whole(document), None
        if kind == "error" or name == b"error" or document.get("error"):
            self.fail("engine_error", error_in(document, b"error") or "")
            return "error", None
        if kind in _DELTAS:
            return self._take_text(_DELTAS[kind], string_in(document, "delta")), None
        if kind in _ENDS:
            return self._take_end(_object(document, "response"), kind), None
        if kind == "response.output_item.added":
            # A call begins with its name, which was generated too.
            calls = _is_call(_object(document, "item"))
            return self._take_text("tool", "call" if calls else ""), None
        return ("role" if kind in ("response.created", "response.in_progress") else None), None

    def _take_text(self, kind: str, text: str) -> str:
        if not text:
            return "role"
        if kind == "content":
            self.text.append(text)
        elif kind == "reasoning":
            self.reasoning.append(text)
        self.generated = True
        return kind

    def _take_end(self, response: Mapping[str, Any], kind: str) -> str:
        """The last event: it holds the whole response once more, with its status and usage."""
        self.ended = True
        if not self.generated:
            return self._take_whole(response, kind.removeprefix("response."))
        self._take_facts(response, kind.removeprefix("response."))
        return "finish" if self.failure is None else "error"

    def _take_whole(self, response: Mapping[str, Any], status: str | None = None) -> str:
        kinds = [self._take_text(kind, text) for kind, text in _output(response)]
        self._take_facts(response, status or string_in(response, "status"))
        if self.failure is not None:
            return "error"
        generated = [kind for kind in kinds if kind != "role"]
        return "content" if "content" in generated else generated[0] if generated else "finish"

    def _take_facts(self, response: Mapping[str, Any], status: str) -> None:
        """Status, usage and error of a response that has ended."""
        usage = response.get("usage")
        if usage is not None:
            if not isinstance(usage, dict):
                raise MalformedError(f"usage is not an object: {usage!r}")
            self._input = number_or(usage.get("input_tokens"), self._input)
            self._output = number_or(usage.get("output_tokens"), self._output)
            details = usage.get("input_tokens_details")
            if isinstance(details, dict):
                self._cached = number_or(details.get("cached_tokens"), self._cached)
        if status == "failed":
            self.fail("engine_error", error_in(response, b"") or "status 'failed'")
        elif status == "incomplete":
            reason = string_in(_object(response, "incomplete_details"), "reason")
            self.finish_reason = _REASONS.get(reason, reason) or None
        elif status == "completed":
            calls = any(_is_call(item) for item in _items(response))
            self.finish_reason = "tool_calls" if calls else "stop"
        elif status == "cancelled":
            self.finish_reason = "cancelled"


def _output(response: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Kind and text of everything that a whole response holds."""
    for item in _items(response):
        if _is_call(item):
            yield "tool", "call"
        for name in ("summary", "content"):
            for part in item.get(name) or ():
                if not isinstance(part, dict):
                    raise MalformedError(f"a part that is not an object: {part!r}")
                kind, field = _PARTS.get(part.get("type", ""), ("", ""))
                if kind:
                    yield kind, string_in(part, field)


def _items(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    output = response.get("output") or []
    if not isinstance(output, list) or not all(isinstance(item, dict) for item in output):
        raise MalformedError("output is not a list of objects")
    return output


def _is_call(item: Mapping[str, Any]) -> bool:
    return str(item.get("type")).endswith("_call")


def _object(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = holder.get(name)
    if not isinstance(value, dict):
        raise MalformedError(f"{name} is not an object: {value!r}")
    return value
