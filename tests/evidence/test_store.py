"""The recorder: what was appended is read back, also when the writer was killed in the middle."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmark.errors import EvidenceError
from fairmark.evidence import store
from fairmark.evidence.store import (
    DETAIL,
    HEALTH,
    HEALTH_NAMES,
    NO_SPACE,
    WIRE,
    Columns,
    DiskFullError,
    LogReader,
    LogWriter,
    allocate,
    segment_path,
)

SEGMENT = 512


def contents(stem: Path) -> list[tuple[int, int, int, bytes]]:
    reader = LogReader(stem)
    found = [(r.kind, r.seq, r.t_ns, reader.data(r)) for r in reader]
    reader.close()
    return found


@given(
    st.lists(
        st.tuples(
            st.sampled_from([WIRE, DETAIL]),
            st.integers(0, 2**62),
            st.integers(0, 2**62),
            st.binary(max_size=300),
        ),
        max_size=40,
    )
)
def test_records_are_read_back_in_order_over_all_segments(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[int, int, int, bytes]]
) -> None:
    stem = tmp_path_factory.mktemp("log") / "worker-0"
    writer = LogWriter(stem, SEGMENT)
    for record in records:
        writer.append(*record)
    # Not closed: a killed process closes nothing.
    assert contents(stem) == records
    writer.close()
    assert contents(stem) == records


def test_health_figures_keep_their_names(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "w", SEGMENT)
    writer.health("cpu_fraction", 5, 0.25)
    writer.close()
    reader = LogReader(tmp_path / "w")
    (record,) = reader
    assert (record.kind, HEALTH_NAMES[record.seq], record.t_ns, reader.value(record)) == (
        HEALTH,
        "cpu_fraction",
        5,
        0.25,
    )
    reader.close()


def test_a_record_whose_kind_was_not_written_does_not_exist(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "w", SEGMENT)
    writer.append(WIRE, 1, 2, b"whole")
    writer.append(WIRE, 3, 4, b"cut")
    writer.close()
    path = next(tmp_path.glob("w.000000.log"))
    content = bytearray(path.read_bytes())
    second = content.index(b"cut") - 24
    content[second + 20 : second + 24] = bytes(4)
    path.write_bytes(content)
    assert contents(tmp_path / "w") == [(WIRE, 1, 2, b"whole")]


def test_a_record_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "w", SEGMENT)
    with pytest.raises(EvidenceError, match="does not fit"):
        writer.append(WIRE, 0, 0, bytes(SEGMENT))
    writer.close()


def test_a_missing_log_is_empty(tmp_path: Path) -> None:
    assert contents(tmp_path / "none") == []


def test_columns_are_shared_between_mappings(tmp_path: Path) -> None:
    path = tmp_path / "columns.bin"
    Columns.create(path, 3)
    writer, reader = Columns(path, 3, write=True), Columns(path, 3, write=False)
    writer.stamps.issued[0] = 7
    writer.stamps.connection[2] = 9
    assert list(reader.stamps.issued) == [7, 0, 0]
    assert list(reader.stamps.connection) == [0, 0, 9]
    with pytest.raises(TypeError):
        reader.stamps.issued[0] = 1


def test_columns_of_another_size_are_refused(tmp_path: Path) -> None:
    Columns.create(tmp_path / "c", 3)
    with pytest.raises(EvidenceError, match="cells"):
        Columns(tmp_path / "c", 4, write=False)


def test_columns_of_an_empty_plan_can_be_mapped(tmp_path: Path) -> None:
    Columns.create(tmp_path / "c", 0)
    assert len(Columns(tmp_path / "c", 0, write=True).stamps.issued) == 0


KILLED = """
import os, signal, sys
from pathlib import Path
from fairmark.evidence.store import Columns, LogWriter, WIRE
folder = Path(sys.argv[1])
stamps = Columns(folder / "columns.bin", 1000, write=True).stamps
log = LogWriter(folder / "worker-0", 4096)
for n in range(1000):
    stamps.issued[n] = n + 1
    log.append(WIRE, n, n + 1, b"x" * 100)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_9_loses_nothing_that_was_stamped(tmp_path: Path) -> None:
    Columns.create(tmp_path / "columns.bin", 1000)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert list(Columns(tmp_path / "columns.bin", 1000, write=False).stamps.issued) == list(range(1, 1001))
    assert [seq for _, seq, _, _ in contents(tmp_path / "worker-0")] == list(range(1000))


LIMITED = """
import resource, sys
from pathlib import Path
from fairmark.evidence.store import DiskFullError, LogWriter, WIRE, allocate
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
folder = Path(sys.argv[1])
allocate(folder / "fits", 1 << 16)
for attempt in (lambda: allocate(folder / "large", (1 << 16) + 1), lambda: LogWriter(folder / "w", 1 << 17)):
    try:
        attempt()
    except DiskFullError as error:
        print(error)
"""


def test_a_file_size_limit_is_a_clean_error_and_leaves_no_file(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path)], check=True, capture_output=True, text=True
    )
    assert ended.stdout.count("no space for") == 2
    assert [p.name for p in tmp_path.iterdir()] == ["fits"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_after_a_segment_that_cannot_be_written_nothing_is_appended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    written: list[str] = []

    def fail_once(path: Path, *rest: Any) -> None:
        written.append(path.name)
        if len(written) == 2:
            kind = DiskFullError if number in NO_SPACE else OSError
            raise kind(number, os.strerror(number))
        write_segment(path, *rest)

    write_segment = store._write_segment
    monkeypatch.setattr(store, "_write_segment", fail_once)
    writer = LogWriter(tmp_path / "w", SEGMENT)
    kept, errors = [], []
    for seq in range(40):
        # After the error small records would fit where a large one did not.
        record = (WIRE, seq, seq + 1, bytes([seq]) * (1 if errors else 200))
        try:
            writer.append(*record)
        except (DiskFullError, OSError) as error:
            errors.append(error)
        else:
            assert not errors
            kept.append(record)
    assert len({id(error) for error in errors}) == 1
    assert len(errors) > 20
    assert contents(tmp_path / "w") == kept
    writer.close()
    assert contents(tmp_path / "w") == kept
    assert written == ["w.000000.log", "w.000001.log"]


def test_a_file_that_was_there_is_not_written_and_not_removed(tmp_path: Path) -> None:
    segment_path(tmp_path / "w", 0).write_bytes(b"another's")
    writer = LogWriter(tmp_path / "w", SEGMENT)
    writer.append(WIRE, 1, 2, b"mine")
    writer.close()
    assert segment_path(tmp_path / "w", 0).read_bytes() == b"another's"
    assert contents(tmp_path / "w") == [(WIRE, 1, 2, b"mine")]
    with pytest.raises(FileExistsError):
        LogWriter(tmp_path / "w", SEGMENT)
    assert contents(tmp_path / "w") == [(WIRE, 1, 2, b"mine")]


@pytest.mark.parametrize("lost", [0, 1, 3])
@pytest.mark.parametrize("emptied", [False, True])
def test_a_log_with_a_hole_is_damaged(tmp_path: Path, lost: int, emptied: bool) -> None:
    """Segments 0 to 3 have files, 4 and 5 are in the buffers, and in no file yet if the writer was killed."""
    writer = LogWriter(tmp_path / "w", SEGMENT)
    for seq in range(12):
        writer.append(WIRE, seq, seq + 1, bytes(200))
    buffers = {path: path.read_bytes() for path in tmp_path.glob("w.buffer-*")}
    writer.close()
    for path, content in buffers.items():
        path.write_bytes(content)
    for number in (4, 5):
        segment_path(tmp_path / "w", number).unlink()
    assert [record[1] for record in contents(tmp_path / "w")] == list(range(12))
    if emptied:
        segment_path(tmp_path / "w", lost).write_bytes(b"")
    else:
        segment_path(tmp_path / "w", lost).unlink()
    with pytest.raises(EvidenceError, match=rf"w\.00000{lost}\.log: this segment of the log is missing"):
        LogReader(tmp_path / "w")


def test_space_is_reserved_and_zero(tmp_path: Path) -> None:
    allocate(tmp_path / "a", 8192)
    assert (tmp_path / "a").read_bytes() == bytes(8192)
    assert (tmp_path / "a").stat().st_blocks * 512 >= 8192
    with pytest.raises(FileExistsError):
        allocate(tmp_path / "a", 1)
    assert issubclass(DiskFullError, EvidenceError)
