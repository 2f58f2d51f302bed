"""Reference outputs: what the reference implementation answered, by sample index."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.scenario.model import Accuracy

__all__ = ["EMBEDDED_REFERENCES", "Reference", "load_references", "parse_references"]

EMBEDDED_REFERENCES: Final[Mapping[str, str]] = {
    "smollm2-135m-gsm8k": "bfb42f2cb76d572886e77f02205c21fc585340708c2d51214b2b07995a005732",
}
"""Name -> SHA-256 of the file's bytes. How each was made: ``scenarios/references/README.md``."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference output.

    ``ends`` holds, for each of its tokens, the number of characters of ``text`` up to that token's end; None
    when the file does not say.
    """

    text: str
    ends: tuple[int, ...] | None = None

    def first(self, tokens: int | None) -> str:
        """The text of the first ``tokens`` tokens; all of it for None, or where ``ends`` is not known."""
        if tokens is None or self.ends is None or tokens >= len(self.ends):
            return self.text
        return self.text[: self.ends[tokens - 1]]


def load_references(accuracy: Accuracy, *, base: Path) -> bytes | None:
    """The bytes of a scenario's reference file, or None if it names none.

    Args:
        accuracy: the scenario's ``[accuracy]``; ``reference`` is ``fairmark:NAME`` or a path.
        base: the folder of the scenario file, which relative paths start from.

    Raises:
        InputError: the file is unknown, missing, malformed, or has another digest than the pin.
    """
    if accuracy.reference is None:
        return None
    data = _read(accuracy.reference, base)
    found = hashlib.sha256(data).hexdigest()
    if accuracy.sha256 not in (None, found):
        raise InputError(
            f"the scenario pins the digest {accuracy.sha256}, but {accuracy.reference} has {found}",
            field="accuracy.sha256",
            accepted=f'the pinned file, or, if this one is meant, the line: sha256 = "{found}"',
        )
    try:
        parse_references(data)
    except ValueError as error:
        raise InputError(str(error), source=accuracy.reference, field="accuracy.reference") from error
    return data


def _read(text: str, base: Path) -> bytes:
    if text.startswith("fairmark:"):
        return _embedded(text)
    try:
        return (base / Path(text).expanduser()).read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}",
            field="accuracy.reference",
            value=text,
            accepted="fairmark:NAME, or a path that starts from the scenario file's folder",
        ) from error


def _embedded(text: str) -> bytes:
    name = text.removeprefix("fairmark:")
    if name not in EMBEDDED_REFERENCES:
        raise InputError(
            "no embedded references have this name",
            field="accuracy.reference",
            value=text,
            accepted=", ".join(map("fairmark:{}".format, EMBEDDED_REFERENCES)),
        )
    data = resources.files("fairmark.scenarios").joinpath("references", f"{name}.jsonl").read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != EMBEDDED_REFERENCES[name]:
        raise InputError(
            f"the installed file has SHA-256 {found}, fairmark was released with {EMBEDDED_REFERENCES[name]}",
            source=f"{name}.jsonl",
            accepted="a reinstallation of fairmark",
        )
    return data


def parse_references(data: bytes) -> dict[int, Reference]:
    """References by sample index, from JSON Lines of ``{"index", "text"}`` and, optionally, ``ends``.

    Raises:
        ValueError: a line is malformed, or an index is there twice; the message names the line.
    """
    references: dict[int, Reference] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            index, reference = _reference(row)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"line {number} is not a reference with an integer index and a text: {error}"
            ) from error
        if index in references:
            raise ValueError(f"line {number} has the index {index} of an earlier line")
        references[index] = reference
    if not references:
        raise ValueError("there are no references")
    return references


def _reference(row: Any) -> tuple[int, Reference]:
    index, text, ends = row["index"], row["text"], row.get("ends")
    if type(index) is not int or index < 0:
        raise ValueError(f"index is {index!r}")
    if not isinstance(text, str):
        raise ValueError(f"text is {type(text).__name__}")
    if ends is None:
        return index, Reference(text)
    if any(type(end) is not int for end in ends) or sorted(ends) != ends or ends[-1:] != [len(text)]:
        raise ValueError("ends are not rising character counts that end with the text")
    return index, Reference(text, tuple(ends))
