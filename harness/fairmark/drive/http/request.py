"""Requests as bytes, rendered before a run: a head per endpoint, and length and body per sample."""

from __future__ import annotations

import mmap
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fairmark.errors import InputError
from fairmark.evidence.store import map_file
from fairmark.sut.api import Endpoint
from fairmark.wire.request_headers import check_headers

__all__ = ["Bodies", "request_head", "write_bodies"]


def request_head(endpoint: Endpoint, user_agent: str) -> bytes:
    """The part of every request to ``endpoint`` that comes before its Content-Length.

    Raises:
        InputError: a header cannot be sent, or is the driver's to set.
    """
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    default_port = 443 if endpoint.tls else 80
    headers = {
        "Host": host if endpoint.port == default_port else f"{host}:{endpoint.port}",
        "User-Agent": user_agent,
        "Accept": "application/json, text/event-stream",
        # A compressed stream arrives in blocks of the compressor's choosing, which would falsify every stamp.
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        **check_headers(endpoint.headers),
        **check_headers(endpoint.secret_headers),
    }
    if not re.fullmatch(r"/[!-~]*", endpoint.path):
        raise InputError(
            "is not a request path", field="path", value=endpoint.path, accepted="/printable-ASCII"
        )
    lines = [f"POST {endpoint.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), ""]
    return "\r\n".join(lines).encode("latin-1")


def write_bodies(folder: Path, bodies: Mapping[int, bytes]) -> None:
    """Store every body with its Content-Length line.

    Files: ``requests.bin``; ``requests.offsets.npy`` int64[bodies + 1]; ``requests.samples.npy``
    int64[bodies], the sample index of each body, ascending.
    """
    samples = np.array(sorted(bodies), dtype=np.int64)
    offsets = np.zeros(len(samples) + 1, dtype=np.int64)
    with (folder / "requests.bin").open("xb") as file:
        for number, index in enumerate(samples.tolist()):
            body = bodies[index]
            file.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            offsets[number + 1] = file.tell()
    np.save(folder / "requests.offsets.npy", offsets, allow_pickle=False)
    np.save(folder / "requests.samples.npy", samples, allow_pickle=False)


class Bodies:
    """The stored bodies, mapped."""

    __slots__ = ("_bytes", "_map", "_offsets", "_samples")

    def __init__(self, folder: Path) -> None:
        self._map: mmap.mmap = map_file(folder / "requests.bin")
        self._bytes = memoryview(self._map)
        self._offsets: memoryview = np.load(folder / "requests.offsets.npy", allow_pickle=False).data
        self._samples = np.load(folder / "requests.samples.npy", allow_pickle=False)

    def numbers(self, sample_index: np.typing.NDArray[np.int64]) -> memoryview:
        """The number of the body of each sample, as an int64 view."""
        return np.searchsorted(self._samples, sample_index).astype(np.int64).data

    def __getitem__(self, number: int) -> memoryview:
        """Content-Length line, empty line and body."""
        return self._bytes[self._offsets[number] : self._offsets[number + 1]]
