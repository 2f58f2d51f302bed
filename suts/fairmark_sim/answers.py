"""What the simulated model says: always the same answer to the same prompt."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Answers", "prompt_text", "read_answers", "until_stop"]

# Words of one to four bytes a character, so that cutting a stream anywhere cuts inside characters too.
_WORDS = ("the", "so", "é", "naïve", "12", "中文", "é́", "🚀", "is", "x", "then", "=", "Ω", "left", "of", "añ")
_PIECE = re.compile(r"\s*\S+|\s+$")


def prompt_text(body: Mapping[str, Any]) -> str:
    """The text of a request's prompt: of the last message, or the prompt itself (ids joined by spaces)."""
    given = body.get("input")
    messages = body.get("messages") or (given if _are_messages(given) else None)
    if messages:
        content = messages[-1].get("content", "")
        return content if isinstance(content, str) else json.dumps(content)
    prompt = body.get("prompt", given or "")
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))


def _are_messages(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and isinstance(given[0], dict)


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers by prompt: those of a table where it has one, else words drawn from the prompt's digest.

    Attributes:
        n_tokens: length of a drawn answer, before the request's own limit.
        table: prompt text -> answer text, cut into tokens at white space.
    """

    n_tokens: int
    table: Mapping[str, str] = field(default_factory=dict)

    def tokens(self, prompt: str) -> list[str]:
        """The whole answer to ``prompt`` as token texts; joined they are the answer."""
        known = self.table.get(prompt)
        if known is not None:
            return _PIECE.findall(known)
        digest = hashlib.shake_128(prompt.encode("utf-8", "surrogatepass")).digest(self.n_tokens)
        words = [" " + _WORDS[byte % len(_WORDS)] for byte in digest]
        return [words[0][1:], *words[1:]] if words else []


def until_stop(tokens: list[str], stop: str | Sequence[str] | None) -> list[str]:
    """``tokens`` up to the first stop sequence, which is left out; the token that it begins in is cut."""
    text = "".join(tokens)
    ends = [text.find(s) for s in ([stop] if isinstance(stop, str) else stop or ()) if s and s in text]
    if not ends:
        return tokens
    kept: list[str] = []
    left = min(ends)
    for token in tokens:
        if left <= 0:
            break
        kept.append(token[:left])
        left -= len(token)
    return kept


def read_answers(path: Path) -> dict[str, str]:
    """Read a table of answers: JSON lines with ``prompt`` and ``text``.

    Raises:
        ValueError: a line is not such an object; the message names the line.
    """
    table: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        row = json.loads(line)
        if not (
            isinstance(row, dict) and isinstance(row.get("prompt"), str) and isinstance(row.get("text"), str)
        ):
            raise ValueError(
                f"{path}:{number}: a line must be an object with the strings `prompt` and `text`"
            )
        table[row["prompt"]] = row["text"]
    return table
