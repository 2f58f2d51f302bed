"""The recorder: stamps and bytes go straight into mapped files, so that a killed process loses none.

`Columns` holds one slot per planned sample, shared by all workers; each slot has one writer. `LogWriter`
is a worker's own append-only log of what has no fixed size: reads, failure details, health figures. All
space is allocated before it is used, because a full disk under a mapped file is SIGBUS and not an error.
Nothing here locks or allocates while stamping. Times are CLOCK_MONOTONIC nanoseconds, 0 = did not happen.
"""

from __future__ import annotations

import errno
import mmap
import os
import queue
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fairmark.errors import EvidenceError

__all__ = [
    "DETAIL",
    "HEALTH",
    "HEALTH_NAMES",
    "NO_SPACE",
    "OUTCOMES",
    "WIRE",
    "Columns",
    "DiskFullError",
    "LogReader",
    "LogWriter",
    "Record",
    "Stamps",
    "allocate",
    "map_file",
]

SEGMENT_BYTES: Final = 4 << 20
_HEADER: Final = struct.Struct("<qqii")
_DOUBLE: Final = struct.Struct("<d")
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors that mean: no space on the disk, in the quota, or under the limit on file sizes."""

WIRE: Final = 1
DETAIL: Final = 2
HEALTH: Final = 3
"""Kinds of log records: a read of a response, why a query failed, a health figure."""

HEALTH_NAMES: Final = (
    "loop_stall_ns",
    "gc_pause_ns",
    "cpu_fraction",
    "steal_fraction",
    "open_connections",
    "in_flight",
    "connections_lost",
    "resident_bytes",
)

OUTCOMES: Final = (
    "",
    "complete",
    "eof",
    "reset",
    "connect",
    "timeout",
    "stalled",
    "aborted",
    "garbled",
)
"""How a request ended, as the driver saw it; a column holds the position in this tuple.

``complete``: the response's framing says so. ``eof``, ``reset``: the connection ended inside the response,
cleanly or not. ``garbled``: the bytes are not HTTP. The rest are failure kinds of the evidence contract.
"""


class DiskFullError(EvidenceError):
    """There is no space left for evidence."""


def allocate(path: Path, size: int) -> None:
    """Create ``path`` with ``size`` bytes of zeros whose space is reserved.

    Raises:
        DiskFullError: the disk, the quota or the file-size limit does not allow it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        if size:
            os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        if error.errno in NO_SPACE:
            path.unlink()
            raise DiskFullError(
                f"no space for {size} bytes of evidence: {os.strerror(error.errno)}"
            ) from error
        raise
    finally:
        os.close(descriptor)


def map_file(path: Path, *, write: bool = False) -> mmap.mmap:
    """Map all of ``path``, shared with whoever else maps it."""
    with path.open("r+b" if write else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ)


class Stamps(NamedTuple):
    """The columns, as writable int64 views indexed by seq."""

    issued: memoryview
    sent: memoryview
    completed: memoryview
    outcome: memoryview
    status: memoryview
    connection: memoryview
    """1 = an idle connection was there, 2 = one was opened for this request."""


class Columns:
    """The mapped columns of a run."""

    def __init__(self, path: Path, samples: int, *, write: bool) -> None:
        self._map = map_file(path, write=write)
        cells = memoryview(self._map).cast("q")
        if len(cells) != self.cells(samples):
            raise EvidenceError(
                f"{path}: has {len(cells)} cells; {self.cells(samples)} belong to {samples} samples"
            )
        self.stamps = Stamps(*(cells[i * samples : (i + 1) * samples] for i in range(len(Stamps._fields))))

    @staticmethod
    def cells(samples: int) -> int:
        """How many int64 cells the columns of ``samples`` samples take; at least one, to be mappable."""
        return max(1, len(Stamps._fields) * samples)

    @classmethod
    def create(cls, path: Path, samples: int) -> None:
        """Reserve the file.

        Raises:
            DiskFullError: there is no space for it.
        """
        allocate(path, 8 * cls.cells(samples))


class _Segments:
    """Makes the next segment of a log ready while the current one fills."""

    def __init__(self, stem: Path, size: int) -> None:
        self._stem = stem
        self._size = size
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[mmap.mmap | OSError | DiskFullError] = queue.SimpleQueue()
        self._number = 0
        self._thread = threading.Thread(target=self._supply, name="segments", daemon=True)
        self._thread.start()
        self._wanted.put(0)

    def take(self) -> mmap.mmap:
        """The next segment; another is made ready behind it."""
        segment = self._ready.get()
        if isinstance(segment, Exception):
            self._ready.put(segment)
            raise segment
        self._number += 1
        self._wanted.put(self._number)
        return segment

    def close(self) -> None:
        """Stop, and give back the space of segments that were never taken."""
        self._wanted.put(None)
        self._thread.join()
        while not self._ready.empty():
            if isinstance(spare := self._ready.get(), mmap.mmap):
                spare.close()
        segment_path(self._stem, self._number).unlink(missing_ok=True)

    def cut_last(self, size: int) -> None:
        """Shorten the segment taken last to ``size`` bytes."""
        os.truncate(segment_path(self._stem, self._number - 1), size)

    def _supply(self) -> None:
        while (number := self._wanted.get()) is not None:
            path = segment_path(self._stem, number)
            try:
                allocate(path, self._size)
                self._ready.put(map_file(path, write=True))
            except (OSError, DiskFullError) as error:
                self._ready.put(error)


def segment_path(stem: Path, number: int) -> Path:
    """The file of segment ``number`` of the log ``stem``."""
    return stem.with_name(f"{stem.name}.{number:06d}.log")


class LogWriter:
    """One worker's append-only log.

    A record is committed by its kind, the last field written: a reader stops at the first empty kind, so a
    process that dies inside a record loses only that record.
    """

    __slots__ = ("_end", "_map", "_position", "_segments", "_size")

    def __init__(self, stem: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._size = segment_bytes
        self._segments = _Segments(stem, segment_bytes)
        self._map = self._segments.take()
        self._position = 0
        self._end = segment_bytes

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        """Append a record.

        Raises:
            DiskFullError: there is no space for another segment.
        """
        size = len(data)
        position = self._position
        start = position + 24
        end = start + size
        if end > self._end:
            self._roll(size)
            position, start, end = 0, 24, 24 + size
        self._map[start:end] = data
        _HEADER.pack_into(self._map, position, seq, t_ns, size, kind)
        self._position = (end + 7) & ~7

    def health(self, name: str, t_ns: int, value: float) -> None:
        """Append a health figure; ``name`` is one of `HEALTH_NAMES`."""
        self.append(HEALTH, HEALTH_NAMES.index(name), t_ns, _DOUBLE.pack(value))

    def _roll(self, size: int) -> None:
        if size + 24 > self._size:
            raise EvidenceError(f"a record of {size} bytes does not fit a segment of {self._size}")
        following = self._segments.take()
        self._map.close()
        self._map = following
        self._position = 0

    def close(self) -> None:
        """Unmap the log, and give back the space it did not use. What was appended is in the file."""
        self._map.close()
        self._segments.close()
        self._segments.cut_last(self._position)


class Record(NamedTuple):
    """Where a log record is. ``seq`` is the health name's number for `HEALTH` records."""

    kind: int
    seq: int
    t_ns: int
    segment: int
    start: int
    size: int


class LogReader:
    """Reads the log of a worker, also of one that was killed."""

    def __init__(self, stem: Path) -> None:
        self._segments: list[mmap.mmap] = []
        while (path := segment_path(stem, len(self._segments))).exists() and path.stat().st_size:
            self._segments.append(map_file(path))

    def __iter__(self) -> Iterator[Record]:
        for number, segment in enumerate(self._segments):
            position, end = 0, len(segment) - _HEADER.size
            while position <= end:
                seq, t_ns, size, kind = _HEADER.unpack_from(segment, position)
                if kind == 0:
                    break
                start = position + _HEADER.size
                yield Record(kind, seq, t_ns, number, start, size)
                position = (start + size + 7) & ~7

    def bytes_at(self, segment: int, start: int, size: int) -> bytes:
        """The bytes of the record that lies there."""
        return self._segments[segment][start : start + size]

    def data(self, record: Record) -> bytes:
        """The bytes of ``record``."""
        return self.bytes_at(record.segment, record.start, record.size)

    def value(self, record: Record) -> float:
        """The figure of a `HEALTH` record."""
        return float(_DOUBLE.unpack(self.data(record))[0])

    def close(self) -> None:
        """Unmap the log."""
        for segment in self._segments:
            segment.close()
