"""Nothing private leaves in a bundle: no paths, names or secrets of the machine that made it.

Two kinds of text are told apart. *Facts* are what fairmark and the engine wrote about the run (JSON, TOML,
logs): no absolute path belongs there. *Content* is prompts, answers and wire bytes: a path may well be part
of a question about programming, so there only this machine's own names and secrets are looked for.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Identity", "Leak", "find_leaks", "this_machine"]

_OVERLAP_BYTES: Final = 512
_BLOCK_BYTES: Final = 1 << 20

# A cookie of x alone is what sealed evidence holds in the place of one.
_SECRETS: Final = {
    "an Authorization header": rb"(?i)\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic)\s+[\w.~+/=-]{8,}",
    "a cookie": rb"(?im)^(?:set-)?cookie:(?!x+\r?$)[ \t]*\S",
    "an API key": (
        rb"\b(?:sk-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|AKIA[0-9A-Z]{16})\b"
    ),
    "a private key": rb"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}

# Folders below which machines keep what is theirs. A bare "/v1/models" or "/metrics" is no such path.
_ABSOLUTE: Final = (
    rb"(?<![\w.:/-])/(?:home|root|Users|tmp|var|opt|mnt|media|srv|data|scratch|work|workspace|usr|etc|private)"
    rb"/[\w.@+-]+|\b[A-Za-z]:\\\\?(?:Users|Temp|Windows)\b"
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The names that would tell where a bundle was made."""

    home: str
    user: str
    host: str


@dataclass(frozen=True, slots=True)
class Leak:
    """Something private: the file (relative path) and what kind of thing it holds, never the thing itself."""

    file: str
    what: str


def this_machine() -> Identity:
    """The home folder, user name and host name of this machine."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no name for this user id, as in many containers
        user = ""
    return Identity(str(Path.home()), user, socket.gethostname())


def find_leaks(folder: Path, files: Sequence[str], identity: Identity) -> list[Leak]:
    """Private things in ``files`` below ``folder``: at most one `Leak` per file and kind."""
    return [Leak(file, what) for file in files for what in _leaks(folder / file, identity)]


def _leaks(path: Path, identity: Identity) -> list[str]:
    is_content = path.suffix in (".parquet", ".zst")
    patterns = _patterns(identity, is_content=is_content)
    found: dict[str, None] = {}
    for text in _texts(path):
        for what, pattern in patterns.items():
            if what not in found and pattern.search(text):
                found[what] = None
    return list(found)


def _patterns(identity: Identity, *, is_content: bool) -> dict[str, re.Pattern[bytes]]:
    patterns = dict(_SECRETS)
    if len(identity.home) > 1:
        patterns["the home folder of this machine"] = re.escape(identity.home.encode()) + rb"(?![\w-])"
    patterns["the user name of this machine"] = _user_pattern(identity.user, is_content=is_content)
    patterns["the host name of this machine"] = _host_pattern(identity.host, is_content=is_content)
    if not is_content:
        patterns["an absolute path"] = _ABSOLUTE
    return {what: re.compile(pattern) for what, pattern in patterns.items() if pattern}


def _user_pattern(user: str, *, is_content: bool) -> bytes:
    """A name such as ``root`` or ``mark`` is also a word: it counts only where a user name would stand."""
    name = re.escape(user.encode())
    if not user:
        return b""
    if _is_distinctive(user):
        return rb"\b" + name + rb"\b"
    if is_content:
        return rb"/(?:home|Users)/" + name + rb"\b"
    return rb"/(?:home|Users)/%b\b|\b%b@[\w-]+|(?i:\buser(?:_?name)?[\"']?\s*[:=]\s*[\"']?)%b\b" % (
        (name,) * 3
    )


def _host_pattern(host: str, *, is_content: bool) -> bytes:
    if host in ("", "localhost") or (is_content and not _is_distinctive(host)):
        return b""
    return rb"(?<![\w-])" + re.escape(host.encode()) + rb"(?![\w-])"


def _is_distinctive(name: str) -> bool:
    """Whether ``name`` cannot be an ordinary word."""
    return len(name) >= 4 and not name.isalpha()


def _texts(path: Path) -> Iterator[bytes]:
    if path.suffix == ".parquet":
        yield from _parquet_texts(path)
    elif path.suffix == ".zst":
        yield from _wire_texts(path)
    else:
        yield path.read_bytes()


def _parquet_texts(path: Path) -> Iterator[bytes]:
    """All strings and binaries of a Parquet file, and its metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    for key, value in (file.metadata.metadata or {}).items():
        if key != b"ARROW:schema":  # base64 of the schema that pyarrow writes; the names are in the footer
            yield key + b"=" + value
    for batch in file.iter_batches():
        for column in batch.columns:
            values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
            if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
                items = (
                    v if isinstance(v, bytes) else v.encode() for v in values.to_pylist() if v is not None
                )
                yield b"\n".join(items)


def _wire_texts(path: Path) -> Iterator[bytes]:
    """The uncompressed wire stream in blocks that overlap, so that no match falls between two."""
    import zstandard

    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as s,
    ):
        tail = b""
        while block := s.read(_BLOCK_BYTES):
            yield tail + block
            tail = block[-_OVERLAP_BYTES:]
