"""Evidence tables as Arrow tables and Parquet files, always in the contract's columns and types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from fairmark.errors import EvidenceError
from fairmark.evidence import columns

__all__ = ["TABLES", "read_table", "schema", "table", "write_table"]

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
        raise EvidenceError(f"{path}: not a readable Parquet file ({error})") from error
    expected = schema(name)
    if not content.schema.equals(expected):
        raise EvidenceError(
            f"{path}: columns do not follow {columns.CONTRACT}: "
            f"found {dict(zip(content.schema.names, map(str, content.schema.types), strict=True))}"
        )
    return content
