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
import re
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
_ORDINAL: Final = struct.Struct("<q")
_HEADER: Final = struct.Struct("<qqii")
_KIND_BITS: Final = 4
_KIND: Final = (1 << _KIND_BITS) - 1
_pack_header: Final = _HEADER.pack_into
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
    "busy_fraction",
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
        path.unlink()
        if error.errno in NO_SPACE:
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
    """1 = an idle connection was there, 2 = one was opened for it; plus twice the endpoint's number."""


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


class _Buffers:
    """The two mapped buffers of a log: one fills while the other is written into a segment of its own.

    A buffer is used again and again, because a page of a new file costs microseconds when it is first
    touched, and a page that is there costs none. It begins with the ordinal of the segment in it (0: none),
    and holds that segment until it is given the next, so what is not in a file yet is still in a file.
    After the first segment that cannot be written, no buffer is given another and none is written out.
    """

    def __init__(self, stem: Path, size: int) -> None:
        self._stem = stem
        self._paths: list[Path] = []
        self._maps: list[mmap.mmap] = []
        try:
            for path in _buffer_paths(stem):
                allocate(path, size)
                self._paths.append(path)
                self._maps.append(map_file(path, write=True))
                self._maps[-1][:] = bytes(size)
        except BaseException:
            self._unlink()
            raise
        self._number = -1
        self._full: queue.SimpleQueue[tuple[int, mmap.mmap, int] | None] = queue.SimpleQueue()
        self._free: queue.SimpleQueue[mmap.mmap | None] = queue.SimpleQueue()
        self._failure: DiskFullError | OSError | None = None
        for buffer in self._maps:
            self._free.put(buffer)
        self._thread = threading.Thread(target=self._write_out, name="segments", daemon=True)
        self._thread.start()

    def take(self) -> tuple[mmap.mmap, int]:
        """A free buffer, and the number of the segment that begins in it.

        Raises:
            DiskFullError, OSError: a segment could not be written; from then on always this error.
        """
        buffer = None if self._failure else self._free.get()
        if buffer is None:
            assert self._failure is not None
            # Else it would grow by the frames of every call.
            raise self._failure.with_traceback(None)
        self._number += 1
        _ORDINAL.pack_into(buffer, 0, self._number + 1)
        return buffer, self._number

    def give(self, buffer: mmap.mmap, used: int) -> None:
        """Have the first ``used`` bytes of the buffer taken last written into their segment."""
        self._full.put((self._number, buffer, used))

    def close(self) -> None:
        """Wait until all is written. Buffers that could not be are left: they hold evidence."""
        self._full.put(None)
        self._thread.join()
        for buffer in self._maps:
            buffer.close()
        if self._failure is None:
            self._unlink()

    def _unlink(self) -> None:
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _write_out(self) -> None:
        while (item := self._full.get()) is not None:
            number, buffer, used = item
            if self._failure is not None:
                continue
            try:
                _write_segment(segment_path(self._stem, number), buffer, used)
                self._free.put(buffer)
            except (OSError, DiskFullError) as error:
                self._failure = error
                self._free.put(None)


def _write_segment(path: Path, buffer: mmap.mmap, used: int) -> None:
    created = False
    try:
        with path.open("xb", buffering=0) as file, memoryview(buffer) as view:
            created = True
            written = 0
            while written < used:
                written += file.write(view[written:used]) or 0
    except OSError as error:
        if created:
            path.unlink()
        if error.errno in NO_SPACE:
            raise DiskFullError(
                f"no space for {used} bytes of evidence: {os.strerror(error.errno)}"
            ) from error
        raise


def _buffer_paths(stem: Path) -> list[Path]:
    return [stem.with_name(f"{stem.name}.buffer-{n}") for n in range(2)]


def segment_path(stem: Path, number: int) -> Path:
    """The file of segment ``number`` of the log ``stem``."""
    return stem.with_name(f"{stem.name}.{number:06d}.log")


def _segment_numbers(stem: Path) -> set[int]:
    """The numbers of the segments of the log ``stem`` that have a file, be it empty."""
    name = re.compile(re.escape(stem.name) + r"\.([0-9]+)\.log")
    return {int(found[1]) for path in stem.parent.glob("*.log") if (found := name.fullmatch(path.name))}


class LogWriter:
    """One worker's append-only log.

    A record is committed by its mark, the last field written, which holds its kind and its segment: a reader
    stops at the first mark of another segment, so a process that dies inside a record loses only that record.
    """

    __slots__ = ("_buffers", "_end", "_map", "_mark", "_position", "_size")

    _position: int

    def __init__(self, stem: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._size = segment_bytes
        self._buffers = _Buffers(stem, segment_bytes)
        self._begin()

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        """Append a record.

        Raises:
            DiskFullError: there is no space for another segment; from then on nothing is appended any more.
            OSError: a segment could not be written for another reason; likewise.
        """
        size = len(data)
        position = self._position
        start = position + 24
        end = start + size
        if end > self._end:
            self._roll(size)
            position = self._position
            start = position + 24
            end = start + size
        self._map[start:end] = data
        _pack_header(self._map, position, seq, t_ns, size, self._mark | kind)
        self._position = (end + 7) & ~7

    def health(self, name: str, t_ns: int, value: float) -> None:
        """Append a health figure; ``name`` is one of `HEALTH_NAMES`."""
        self.append(HEALTH, HEALTH_NAMES.index(name), t_ns, _DOUBLE.pack(value))

    def _begin(self) -> None:
        # Nothing fits, and there is nothing to give, until a buffer is there.
        self._end = 0
        self._map, number = self._buffers.take()
        self._mark, self._position, self._end = _mark(number), _ORDINAL.size, self._size

    def _roll(self, size: int) -> None:
        if _ORDINAL.size + _HEADER.size + size > self._size:
            raise EvidenceError(f"a record of {size} bytes does not fit a segment of {self._size}")
        self._give()
        self._begin()

    def _give(self) -> None:
        if self._end:
            self._buffers.give(self._map, min(self._position, self._size))

    def close(self) -> None:
        """Unmap the log. What was appended is in its files."""
        self._give()
        self._buffers.close()


def _mark(number: int) -> int:
    """The mark of segment ``number`` without a kind; never 0, which is how a buffer begins."""
    return (number + 1) << _KIND_BITS


class Record(NamedTuple):
    """Where a log record is. ``seq`` is the health name's number for `HEALTH` records."""

    kind: int
    seq: int
    t_ns: int
    segment: int
    start: int
    size: int


def _held(path: Path) -> tuple[int, mmap.mmap]:
    """Which segment a buffer holds, -1 if none, and its mapping."""
    buffer = map_file(path)
    (ordinal,) = _ORDINAL.unpack_from(buffer)
    return ordinal - 1, buffer


class LogReader:
    """Reads the log of a worker, also of one that was killed.

    Raises:
        EvidenceError: a segment is missing, or its file is empty and no buffer holds it.
    """

    def __init__(self, stem: Path) -> None:
        buffers = dict(_held(path) for path in _buffer_paths(stem) if path.exists() and path.stat().st_size)
        numbers = _segment_numbers(stem) | {number for number in buffers if number >= 0}
        self._segments: list[mmap.mmap] = []
        for number in range(max(numbers, default=-1) + 1):
            path = segment_path(stem, number)
            if number in buffers:
                # Its file, if there is one, may have been cut short.
                self._segments.append(buffers.pop(number))
            elif path.exists() and path.stat().st_size:
                self._segments.append(map_file(path))
            else:
                raise EvidenceError(f"{path}: this segment of the log is missing or empty")
        for unused in buffers.values():
            unused.close()

    def __iter__(self) -> Iterator[Record]:
        for number, segment in enumerate(self._segments):
            position, end, mark = _ORDINAL.size, len(segment) - _HEADER.size, _mark(number)
            while position <= end:
                seq, t_ns, size, marked = _HEADER.unpack_from(segment, position)
                kind = marked & _KIND
                if marked - kind != mark or not kind:
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
