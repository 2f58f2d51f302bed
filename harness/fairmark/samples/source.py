"""Where samples come from: the three spellings of ``samples.source``, and the bytes behind them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from fairmark.errors import InputError
from fairmark.hooks import named_samples

__all__ = [
    "EMBEDDED",
    "FORMATS",
    "EmbeddedSource",
    "FileFormat",
    "FileSource",
    "HubSource",
    "Source",
    "SourceFile",
    "file_format",
    "hash_file",
    "parse_source",
]

FileFormat = Literal["jsonl", "csv", "parquet"]
FORMATS: Final[Mapping[str, FileFormat]] = {
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".csv": "csv",
    ".parquet": "parquet",
}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that samples were read from: its name without folders, and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class FileSource:
    """A local file."""

    path: Path
    format: FileFormat

    def open_path(self) -> AbstractContextManager[Path]:
        """The file's path, for as long as the context lasts."""
        return nullcontext(self.path)


@dataclass(frozen=True, slots=True)
class EmbeddedSource:
    """A data file shipped with fairmark, pinned by the SHA-256 of its bytes."""

    name: str
    sha256: str
    format: FileFormat = "jsonl"
    arrivals: str | None = None
    """For recordings of a service: the column with the time of each request."""
    lengths: tuple[str, str] | None = None
    """For recordings: the columns with the tokens of each request and of its answer."""

    def open_path(self) -> AbstractContextManager[Path]:
        """The file's path, for as long as the context lasts."""
        return resources.as_file(resources.files("fairmark.samples.data").joinpath(self.name))


@dataclass(frozen=True, slots=True)
class HubSource:
    """A Hugging Face data set at one commit. ``config`` and ``split`` may be None if there is only one."""

    dataset: str
    commit: str
    config: str | None = None
    split: str | None = None


Source = FileSource | EmbeddedSource | HubSource

EMBEDDED: Final[Mapping[str, EmbeddedSource]] = {
    # openai/grade-school-math, commit 3101c7d, grade_school_math/data/test.jsonl; MIT.
    "gsm8k-test": EmbeddedSource(
        "gsm8k-test.jsonl", "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14"
    ),
    # openai/human-eval, commit 6d43fb9, data/HumanEval.jsonl.gz; MIT.
    "humaneval": EmbeddedSource(
        "humaneval.jsonl.gz", "b796127e635a67f93fb35c04f4cb03cf06f38c8072ee7cee8833d7bee06979ef"
    ),
    # Azure/AzurePublicDataset, commit b469a11, data/AzureLLMInferenceTrace_{conv,code}.csv; CC-BY-4.0.
    "azure-conv-2023": EmbeddedSource(
        "azure-conv-2023.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
        "csv",
        arrivals="TIMESTAMP",
        lengths=("ContextTokens", "GeneratedTokens"),
    ),
    "azure-code-2023": EmbeddedSource(
        "azure-code-2023.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
        "csv",
        arrivals="TIMESTAMP",
        lengths=("ContextTokens", "GeneratedTokens"),
    ),
}

_HUB = re.compile(
    r"(?P<dataset>[\w.-]+(?:/[\w.-]+)?)@(?P<commit>[0-9a-f]{40})"
    r"(?::(?:(?P<config>[\w.-]+)/)?(?P<split>[\w.-]+))?"
)


def parse_source(text: str, base: Path) -> Source:
    """Read a ``samples.source`` value.

    Args:
        text: ``fairmark:NAME``, ``plugin:NAME``, ``hub:ID@COMMIT[:[CONFIG/]SPLIT]``, or a path.
        base: the folder that relative paths start from: the scenario file's.

    Raises:
        InputError: an unknown embedded name, a hub id without a full commit hash, a missing file, or a file
            in a format that is not read.
    """
    if text.startswith("fairmark:"):
        name = text.removeprefix("fairmark:")
        if name not in EMBEDDED:
            raise _refused(
                "no embedded samples have this name", text, ", ".join(map("fairmark:{}".format, EMBEDDED))
            )
        return EMBEDDED[name]
    if text.startswith("hub:"):
        return _parse_hub(text)
    if text.startswith("plugin:"):
        return _parse_path(str(named_samples(text.removeprefix("plugin:")).absolute()), base)
    return _parse_path(text, base)


def _refused(problem: str, value: str, accepted: str) -> InputError:
    return InputError(problem, field="samples.source", value=value, accepted=accepted)


def _parse_hub(text: str) -> HubSource:
    found = _HUB.fullmatch(text.removeprefix("hub:"))
    if found is None:
        problem = (
            "a branch or tag can move, so it pins nothing"
            if "@" in text
            else "a hub data set needs a revision"
        )
        raise _refused(problem, text, "hub:ID@COMMIT[:[CONFIG/]SPLIT] with COMMIT of 40 hexadecimal digits")
    return HubSource(**found.groupdict())


def _parse_path(text: str, base: Path) -> FileSource:
    path = base / Path(text).expanduser()
    known = file_format(path.name)
    if known is None:
        raise _refused("samples are not read from this kind of file", text, ", ".join(FORMATS))
    if not path.is_file():
        accepted = "an existing file; relative paths start from the scenario file's folder"
        raise _refused("is a folder" if path.is_dir() else "does not exist", text, accepted)
    return FileSource(path, known)


def file_format(name: str) -> FileFormat | None:
    """The format of a file by the end of its name, or None."""
    return next((known for end, known in FORMATS.items() if name.lower().endswith(end)), None)


def hash_file(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from error
