"""The text of an answer, as its tokens come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["AnswerText"]


class AnswerText:
    """Turns tokens into pieces of text that add up to the answer.

    A character whose bytes are spread over several tokens comes with the last of them. With stop strings,
    the beginning of what may become one is held back, and the answer ends before the first that appears.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        stop: stop strings.

    Attributes:
        stopped: whether a stop string has appeared; there is no more text after it.
    """

    def __init__(self, tokenizer: Any, stop: Sequence[str] = ()) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer = tokenizer
        self._stop = tuple(s for s in stop if s)
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._decoded = ""
        self._given = 0
        self.stopped = False

    def add(self, token: int) -> str:
        """The text that ``token`` completes; may be empty."""
        self._ids.append(token)
        self._decoded += self._stream.step(self._tokenizer, token) or ""
        return self._give(self._heldback())

    def finish(self) -> str:
        """What is still held back, once there are no more tokens."""
        whole = self._tokenizer.decode(self._ids, skip_special_tokens=True)
        if not self.stopped and whole.startswith(self._decoded):
            self._decoded = whole
        return self._give(0)

    def _give(self, keep: int) -> str:
        found = [at for s in self._stop if (at := self._decoded.find(s)) >= 0]
        if found:
            self.stopped = True
            self._decoded = self._decoded[: min(found)]
            keep = 0
        end = len(self._decoded) - keep
        piece, self._given = self._decoded[self._given : end], max(self._given, end)
        return piece

    def _heldback(self) -> int:
        """How many characters at the end may be the beginning of a stop string."""
        text = self._decoded
        starts = (
            n for s in self._stop for n in range(min(len(s) - 1, len(text)), 0, -1) if text.endswith(s[:n])
        )
        return max(starts, default=0)
