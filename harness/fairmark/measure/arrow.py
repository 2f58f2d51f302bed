"""Evidence tables as arrays: the only place of this package that speaks Arrow."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

__all__ = [
    "ABSENT",
    "Flags",
    "Int64s",
    "between",
    "byte_lengths",
    "floats",
    "int64s",
    "kinds",
    "marked",
    "present",
    "select",
    "tally",
    "total",
    "truths",
]

Int64s: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

ABSENT: Final = int(np.iinfo(np.int64).min)
"""Stands for null in the int64 arrays of this package; no stamp and no count can reach it."""

_compute: Any = pyarrow.compute  # its stubs cannot type kernels on columns of a type known only at run time


def int64s(table: pa.Table, name: str) -> Int64s:
    """An integer column as int64, null as `ABSENT`."""
    filled: Int64s = _compute.fill_null(table[name].cast(pa.int64()), ABSENT).to_numpy()
    return filled


def floats(table: pa.Table, name: str) -> npt.NDArray[np.float64]:
    """The values of a double column that are not null."""
    values: npt.NDArray[np.float64] = table[name].drop_null().to_numpy()
    return values


def byte_lengths(table: pa.Table, name: str) -> Int64s:
    """The size of each string of a column in UTF-8; null is 0."""
    sizes: Int64s = _compute.fill_null(_compute.binary_length(table[name]), 0).cast(pa.int64()).to_numpy()
    return sizes


def total(values: Int64s) -> int:
    """The exact sum, also where it does not fit into 64 bits."""
    parts = np.array_split(values, len(values) // 65536 + 1)
    return sum(int(part.sum()) for part in parts)


def present(values: Int64s) -> Flags:
    """Where ``values`` are not null."""
    there: Flags = values != ABSENT
    return there


def marked(table: pa.Table, name: str) -> Flags:
    """Where a column is not null."""
    valid: Flags = _compute.is_valid(table[name]).to_numpy()
    return valid


def truths(table: pa.Table, name: str) -> Flags:
    """Where a bool column is true; null is not."""
    found: Flags = _compute.fill_null(table[name], False).to_numpy()
    return found


def kinds(table: pa.Table, name: str, *wanted: str) -> Flags:
    """Where a dictionary column is one of ``wanted``; null is none of them."""
    chunks: Any = table[name].chunks
    if not chunks:
        return np.zeros(0, dtype=np.bool_)
    found: Flags = np.concatenate([_is_one_of(chunk, wanted) for chunk in chunks])
    return found


def _is_one_of(chunk: Any, wanted: tuple[str, ...]) -> Flags:
    """By index, so that no string is made for a row; null is the extra index at the end."""
    hits = np.array([value in wanted for value in chunk.dictionary.to_pylist()] + [False])
    found: Flags = hits[chunk.indices.fill_null(len(hits) - 1).to_numpy()]
    return found


def select(table: pa.Table, rows: Flags) -> pa.Table:
    """The rows that are marked."""
    if rows.all():
        return table
    return table.filter(pa.array(rows))


def between(table: pa.Table, name: str, start: int, end: int) -> pa.Table:
    """The rows whose integer column lies in [start, end]."""
    values = int64s(table, name)
    return select(table, (values >= start) & (values <= end))


def tally(table: pa.Table, name: str, *, null: str | None = None) -> dict[str, int]:
    """How often each value of a string column occurs, by name; nulls count as ``null``, or not at all."""
    column = table[name].cast(pa.string())
    column = column.drop_null() if null is None else _compute.fill_null(column, null)
    counted = _compute.value_counts(column)
    return dict(sorted((str(row["values"]), int(row["counts"])) for row in counted.to_pylist()))
