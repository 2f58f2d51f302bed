"""The model's answer, put together from the JSON documents of one response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fairmark.wire.growing import GrowingAnswer, MalformedError, error_in, number_or, string_in

__all__ = ["Answer", "Piece", "chat_piece", "completion_piece"]

_GENERATED: Final = frozenset({"content", "reasoning", "tool"})
_TEXT_ONLY: Final[tuple[Any, ...]] = ([], None, None, set(), [], None, None, None, None)
_grow: Final = GrowingAnswer.take
_LESSONS: Final = 4
"""How often a response may change its ways before every document is read the long way."""


Piece = tuple[str, str, bool]
"""What one choice adds to the answer: text, reasoning, and whether it holds part of a tool call."""


def chat_piece(choice: Mapping[str, Any]) -> Piece:
    """Take a choice of a chat completion apart: its ``delta`` when streamed, its ``message`` when whole."""
    message = choice.get("delta")
    if message is None:
        message = choice.get("message")
    if message is None:
        return "", "", False
    if not isinstance(message, dict):
        raise MalformedError(f"a message that is not an object: {message!r}")
    text = message.get("content")
    if len(message) == 1 and type(text) is str:
        return text, "", False
    # A refusal is what the user gets to see instead of content.
    text = string_in(message, "content") or string_in(message, "refusal")
    # Servers disagree about the name; those that send both repeat the same text.
    reasoning = string_in(message, "reasoning_content") or string_in(message, "reasoning")
    return text, reasoning, bool(message.get("tool_calls") or message.get("function_call"))


def completion_piece(choice: Mapping[str, Any]) -> Piece:
    """Take a choice of a text completion apart."""
    return string_in(choice, "text"), "", False


class Answer(GrowingAnswer):
    """Grows document by document. Only the first choice counts: one answer per request is asked for."""

    __slots__ = (
        "_counted",
        "_ids",
        "_input_ids",
        "_lessons",
        "_piece",
        "_prefix",
        "_suffix",
        "_uncounted",
        "_without_ids",
    )

    def __init__(self, piece: Callable[[Mapping[str, Any]], Piece]) -> None:
        super().__init__()
        self._piece = piece
        self._ids: list[int] = []
        self._without_ids = False
        self._uncounted = False
        self._input_ids: int | None = None
        self._counted = 0
        self._prefix = self._suffix = b""
        self._lessons = _LESSONS

    def take(self, data: bytes, name: bytes) -> tuple[str | None, int | None]:
        """See `GrowingAnswer.take`; what is learnt here speeds up `take_alike`."""
        known = len(self.text)
        taken = _grow(self, data, name)
        if self._lessons and len(self.text) > known and self.finish_reason is None and not name:
            self._lessons -= 1
            self._learn(data)
        return taken

    def take_alike(self, data: Sequence[bytes], names: Sequence[bytes], start: int) -> int:
        """See `GrowingAnswer.take_alike`: many times faster than `take`."""
        texts, known = self.text, len(self.text)
        prefix, suffix, first, last = self._prefix, self._suffix, len(self._prefix), -len(self._suffix)
        if not prefix:
            return 0
        for number in range(start, len(data)):
            document = data[number]
            if names[number] or not (document.startswith(prefix) and document.endswith(suffix)):
                break
            text = _plain_text(document[first:last])
            if not text:
                break
            texts.append(text)
        taken = len(texts) - known
        if taken and self.finish_reason is not None:
            self.flags.add("tokens_after_finish")
        return taken

    def _learn(self, data: bytes) -> None:
        """See what comes before and after the text in ``data``: most documents of a stream differ in it only.

        The text is a JSON string without escapes, so that a document with the same bytes around another such
        string says the same but for its text, if one does. One is read here, the long way, to know that.
        """
        text = self.text[-1]
        quoted = f'"{text}"'.encode("utf-8", "surrogatepass")
        if _plain_text(quoted[1:-1]) is None or data.count(quoted) != 1:
            return
        before, _, after = data.partition(quoted)
        prefix, suffix, other = before + b'"', b'"' + after, f"{text}~"
        trial = Answer(self._piece)
        _grow(trial, prefix + other.encode() + suffix, b"")
        if trial.text == [other] and trial._facts() == _TEXT_ONLY:
            self._prefix, self._suffix = prefix, suffix

    def _facts(self) -> tuple[Any, ...]:
        """All but the text."""
        return (
            self.reasoning,
            self.finish_reason,
            self.failure,
            self.flags,
            self._ids,
            self._input_ids,
            self._input,
            self._output,
            self._cached,
        )

    def take_document(self, document: Mapping[str, Any], name: bytes) -> tuple[str | None, int | None]:
        """See `GrowingAnswer.take_document`."""
        if name or "error" in document or ("object" in document and document["object"] == "error"):
            problem = error_in(document, name)
            if problem is not None:
                self.fail("engine_error", problem)
                return "error", None
        usage = document.get("usage")
        if usage is not None:
            self._take_usage(usage)
        choices = document.get("choices")
        if not choices:
            return ("usage" if usage is not None else None), None
        return self._take_choice(self._first(choices), document, usage is not None)

    def _first(self, choices: Any) -> dict[str, Any]:
        """The choice with index 0; an empty one when there are only others."""
        if not isinstance(choices, list):
            raise MalformedError("choices is not a list")
        first: dict[str, Any] = {}
        for choice in choices:
            if not isinstance(choice, dict):
                raise MalformedError(f"a choice that is not an object: {choice!r}")
            if choice.get("index", 0):
                self.flags.add("extra_choices")
            else:
                first = choice
        return first

    def _take_choice(
        self, choice: Mapping[str, Any], document: Mapping[str, Any], counts: bool
    ) -> tuple[str, int | None]:
        text, reasoning, tool = self._piece(choice)
        reason = choice.get("finish_reason")
        ids = choice.get("token_ids")
        if reason is not None and not isinstance(reason, str):
            raise MalformedError(f"finish_reason is not a string: {reason!r}")
        if ids is not None and not _are_ids(ids):
            raise MalformedError("token_ids is not a list of integers")
        if text:
            kind = "content"
            self.text.append(text)
        else:
            kind = "reasoning" if reasoning else "tool" if tool else _kind_without_output(reason, ids)
        if reasoning:
            self.reasoning.append(reasoning)
        if kind in _GENERATED:
            self.generated = True
            if self.finish_reason is not None:
                self.flags.add("tokens_after_finish")
        if reason is not None:
            self.finish_reason = reason
        if self._input_ids is None:
            prompt_ids = document.get("prompt_token_ids") or choice.get("prompt_token_ids")
            if isinstance(prompt_ids, list):
                self._input_ids = len(prompt_ids)
        if ids is None and not counts:
            if kind in _GENERATED:
                self._without_ids = self._uncounted = True
            return kind, None
        return kind, self._count(kind, ids, counts)

    def _count(self, kind: str, ids: list[int] | None, counts: bool) -> int | None:
        """The tokens in one event: its ids, else what the usage has grown by.

        Usage that comes only with the last event is the size of the whole response, not of that event.
        """
        if ids is not None:
            self._ids += ids
            return len(ids) if ids or kind in _GENERATED else None
        if kind not in _GENERATED:
            return None
        self._without_ids = True
        if not counts or self._output is None or self._uncounted:
            self._uncounted = True
            return None
        new, self._counted = self._output - self._counted, self._output
        return new if new >= 0 else None

    def _take_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            raise MalformedError(f"usage is not an object: {usage!r}")
        self._input = number_or(usage.get("prompt_tokens"), self._input)
        self._output = number_or(usage.get("completion_tokens"), self._output)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self._cached = number_or(details.get("cached_tokens"), self._cached)

    def ids(self) -> list[int] | None:
        """See `GrowingAnswer.ids`."""
        return self._ids if self._ids and not self._without_ids else None

    def output_tokens(self) -> tuple[int | None, str | None]:
        """How many tokens were generated, and whether ids or usage say so."""
        ids = self.ids()
        if ids is not None:
            if self._output is not None and self._output != len(ids):
                self.flags.add("token_counts_differ")
            return len(ids), "ids"
        return super().output_tokens()

    def input_tokens(self) -> tuple[int | None, str | None]:
        """How many tokens the prompt has, and whether ids or usage say so."""
        if self._input_ids is not None:
            return self._input_ids, "ids"
        return super().input_tokens()


def _plain_text(raw: bytes) -> str | None:
    """The text of a JSON string that needs no escapes; None for others, and for some that do not either."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() and '"' not in text and "\\" not in text else None


def _kind_without_output(reason: Any, ids: Any) -> str:
    if reason is not None:
        return "finish"
    # Ids without text: generated, but held back until they make up whole characters.
    return "content" if ids else "role"


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(type(i) is int for i in value)
