"""Evidence tables as Arrow tables and Parquet files, always in the contract's columns and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fairmark.errors import EvidenceError
from fairmark.evidence import columns

__all__ = ["TABLES", "TableFile", "open_table", "read_table", "schema", "table", "write_table"]

TABLES: Final[dict[str, dict[str, str]]] = {
    "queries": columns.QUERIES,
    "events": columns.EVENTS,
    "reads": columns.READS,
    "outputs": columns.OUTPUTS,
    "plan": columns.PLAN,
    "samples": columns.SAMPLES,
    "health": columns.HEALTH,
    "telemetry": columns.TELEMETRY,
}

_TYPES: Final[dict[str, pa.DataType]] = {
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
    "list<int32>": pa.list_(pa.int32()),
}


def _type(spelling: str) -> pa.DataType:
    # The stubs know each alias by its literal only.
    return _TYPES.get(spelling) or pa.type_for_alias(spelling)  # type: ignore[call-overload]


def schema(name: str) -> pa.Schema:
    """The Arrow schema of the evidence table ``name`` (a key of `TABLES`)."""
    metadata: dict[bytes | str, bytes | str] = {"contract": columns.CONTRACT, "table": name}
    return pa.schema([(c, _type(t)) for c, t in TABLES[name].items()], metadata=metadata)


def table(name: str, data: Mapping[str, Any]) -> pa.Table:
    """Build the table ``name`` from equally long columns; columns not in ``data`` are all null.

    Raises:
        KeyError: ``data`` has a column that the contract does not know.
    """
    spec = schema(name)
    unknown = set(data) - set(spec.names)
    if unknown:
        raise KeyError(f"{name} has no column {sorted(unknown)}")
    length = len(next(iter(data.values()))) if data else 0
    arrays = [
        pa.array(data[f.name], type=f.type) if f.name in data else pa.nulls(length, type=f.type) for f in spec
    ]
    return pa.Table.from_arrays(arrays, schema=spec)


def write_table(content: pa.Table, path: Path) -> None:
    """Write ``content`` as zstd-compressed Parquet; equal tables give equal bytes."""
    pq.write_table(content, path, compression="zstd", store_schema=True)


@dataclass(frozen=True, slots=True)
class TableFile:
    """An evidence table on disk, for one that may be larger than memory; ``len`` is its number of rows."""

    path: Path
    rows: int

    def __len__(self) -> int:
        return self.rows

    def parts(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """The columns ``names``, one row group after the other.

        Raises:
            EvidenceError: the file is damaged.
        """
        try:
            with pq.ParquetFile(self.path) as file:
                for number in range(file.num_row_groups):
                    yield file.read_row_group(number, columns=list(names))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(self.path, error) from error


def open_table(name: str, path: Path) -> TableFile:
    """The table ``name``, to be read a part at a time; checked like `read_table`'s.

    Raises:
        EvidenceError: the file is missing, is not Parquet, or has other columns or types.
    """
    try:
        with pq.ParquetFile(path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
    except FileNotFoundError as error:
        raise EvidenceError(f"{path}: missing; a run has this table") from error
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    _check_schema(name, found, path)
    return TableFile(path, rows)


def read_table(name: str, path: Path) -> pa.Table:
    """Read the table ``name`` and check that it keeps the contract.

    Raises:
        EvidenceError: the file is missing, is not Parquet, or has other columns or types.
    """
    try:
        content = pq.read_table(path)
    except FileNotFoundError as error:
        raise EvidenceError(f"{path}: missing; a run has this table") from error
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    _check_schema(name, content.schema, path)
    return content


def _unreadable(path: Path, cause: Exception) -> EvidenceError:
    return EvidenceError(f"{path}: not a readable Parquet file ({cause})")


def _check_schema(name: str, found: pa.Schema, path: Path) -> None:
    if not found.equals(schema(name)):
        raise EvidenceError(
            f"{path}: columns do not follow {columns.CONTRACT}: "
            f"found {dict(zip(found.names, map(str, found.types), strict=True))}"
        )
