"""Reading sample files with `datasets`. Runs in the preparing process only, which imports it.

What `datasets` infers about types never decides content: JSON Lines are read as lines and parsed here
(Arrow's JSON reader turns strings that look like dates into timestamps), CSV columns are declared strings.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairmark.errors import InputError
from fairmark.samples.source import FileFormat

__all__ = ["read_rows"]

Row = Mapping[str, Any]


def read_rows(path: Path, kind: FileFormat, columns: Sequence[str], cache: Path) -> Iterator[Row]:
    """Rows of a file, in order; each has at least ``columns``.

    Args:
        path: the file.
        kind: its format; a JSON Lines file may be compressed with gzip.
        columns: the columns that are used.
        cache: a folder for what `datasets` writes. It must be new: `datasets` keys its cache by path, size
            and time of the file, so that a rewritten file could give its old rows.

    Raises:
        InputError: the file cannot be read, is malformed (with the line), or lacks a column.
    """
    reader = {"jsonl": _read_jsonl, "csv": _read_csv, "parquet": _read_parquet}[kind]
    return reader(path, columns, cache)


def _load(builder: str, path: Path, cache: Path, **options: Any) -> Any:
    import datasets

    try:
        return datasets.load_dataset(
            builder, data_files=[str(path)], split="train", cache_dir=str(cache), **options
        )
    except datasets.exceptions.DatasetGenerationError as error:
        raise _unreadable(path, error.__cause__ or error) from error
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, cause: BaseException) -> InputError:
    if isinstance(cause, UnicodeDecodeError):
        return InputError(f"is not UTF-8 text: {cause.reason} at byte {cause.start}", source=path.name)
    reason = " ".join(str(cause).split()) or type(cause).__name__
    return InputError(f"cannot be read: {reason}", source=path.name)


def _require(columns: Sequence[str], present: Sequence[str], path: Path) -> None:
    if not present:
        raise InputError("is empty", source=path.name, accepted=f"rows with {', '.join(map(repr, columns))}")
    missing = [name for name in columns if name not in present]
    if missing:
        raise InputError(
            f"there is no column {missing[0]!r}", source=path.name, accepted=", ".join(map(repr, present))
        )


def _read_jsonl(path: Path, columns: Sequence[str], cache: Path) -> Iterator[Row]:
    if not _has_content(path):
        return
    lines = _load("text", path, cache)
    first = True
    for number, line in enumerate((row["text"] for row in lines), start=1):
        if not line.strip():
            continue
        row = _parse_line(line.removeprefix("\ufeff") if number == 1 else line, number, path)
        if first:
            _require(columns, list(row), path)
            first = False
        for name in columns:
            if name not in row:
                raise InputError(f"this row has no {name!r}", source=path.name, line=number)
        yield row


def _has_content(path: Path) -> bool:
    """Whether a text file holds anything; `datasets` fails on an empty one instead of giving no rows."""
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
            return bool(stream.read(1))
    except (OSError, EOFError) as error:
        raise _unreadable(path, error) from error


def _parse_line(line: str, number: int, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=_unique, parse_constant=_no_constant)
    except ValueError as error:
        raise InputError(f"is not a line of JSON: {error}", source=path.name, line=number) from error
    except RecursionError as error:
        raise InputError("is nested too deeply", source=path.name, line=number) from error
    if not isinstance(row, dict):
        raise InputError(
            f"is {type(row).__name__}, not an object", source=path.name, line=number, accepted="a JSON object"
        )
    return row


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return row


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _read_csv(path: Path, columns: Sequence[str], cache: Path) -> Iterator[Row]:
    header, count = _check_csv(path)
    _require(columns, header, path)
    if count == 0:
        return
    import datasets

    features = datasets.Features({name: datasets.Value("large_string") for name in header})
    options = {"keep_default_na": False, "na_filter": False, "index_col": False, "encoding": "utf-8-sig"}
    table = _load("csv", path, cache, features=features, **options)
    if len(table) != count:
        raise InputError(f"has {count} records, of which {len(table)} could be read", source=path.name)
    yield from table


def _check_csv(path: Path) -> tuple[list[str], int]:
    """Header and number of records of a CSV file whose records all have the header's width.

    pandas, which `datasets` reads CSV with, fills short records and may take the first of too many cells
    for an index; so the shape is checked before.
    """
    csv.field_size_limit(sys.maxsize)  # the default of 128 KiB is less than one long-context prompt
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = next(reader, [])
            return header, _count_records(reader, header, path)
    except csv.Error as error:
        raise InputError(f"is not CSV: {error}", source=path.name, line=reader.line_num) from error
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _count_records(reader: Any, header: Sequence[str], path: Path) -> int:
    if len(set(header)) < len(header):
        twice = next(name for name in header if list(header).count(name) > 1)
        raise InputError(f"the column {twice!r} is there twice", source=path.name, line=1)
    count = 0
    for record in reader:
        if not record:
            continue
        if len(record) != len(header):
            raise InputError(
                f"this record has {len(record)} cells, the header has {len(header)}",
                source=path.name,
                line=reader.line_num,
            )
        count += 1
    return count


def _read_parquet(path: Path, columns: Sequence[str], cache: Path) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            present, count = file.schema_arrow.names, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    _require(columns, present, path)
    if count == 0:
        return
    yield from _load("parquet", path, cache, columns=list(columns))
