"""The identity of sample content: one digest, whatever file the content came in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairmark.errors import InputError

__all__ = ["canonical_row", "content_sha256", "digest_rows", "parse_row"]


def canonical_row(row: Mapping[str, Any], columns: Iterable[str], *, number: int = 1) -> str:
    """RFC 8785 JSON of one row's used columns, as an object keyed by column name.

    Args:
        row: the row; columns that are not used are ignored.
        columns: the used columns; their order does not matter, RFC 8785 sorts the keys.
        number: the row's 1-based number, for the message.

    Raises:
        InputError: a value is not JSON, or its JSON is not portable: an integer beyond 2^53, NaN, infinity,
            a lone surrogate.
        KeyError: the row lacks a column.
    """
    import rfc8785

    used = {name: row[name] for name in columns}
    try:
        return rfc8785.dumps(used).decode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InputError(
            f"row {number} has no portable JSON form: {error}",
            accepted="strings, booleans, null, finite numbers, integers within ±(2^53 - 1), lists, objects",
        ) from error


def parse_row(text: str) -> dict[str, Any]:
    """The row that `canonical_row` wrote.

    Raises:
        ValueError: ``text`` is not a JSON object.
    """
    row = json.loads(text, parse_int=_integer)
    if not isinstance(row, dict):
        raise ValueError("a sample row is a JSON object")
    return row


def _integer(digits: str) -> int | float:
    """RFC 8785 writes a float such as 2.0^60 without a point; beyond 2^53 only floats exist."""
    value = int(digits)
    return value if abs(value) < 2**53 else float(digits)


def digest_rows(rows: Iterable[str]) -> str:
    """SHA-256 over canonical rows, each followed by one line feed."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(row.encode("utf-8"))
        digest.update(b"\n")
    return digest.hexdigest()


def content_sha256(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """The content digest: what a scenario pins with ``samples.sha256``.

    The digested bytes are, for every row in order: the RFC 8785 JSON (UTF-8) of an object that holds the
    used columns and nothing else, then one byte 0x0A. RFC 8785 escapes line feeds, so rows cannot run into
    each other. File format, compression, key order, unused columns and the order of columns do not enter;
    row order, column names and JSON types do.

    CSV has no types: every cell is a string, exactly as written. A column of numbers in CSV therefore has
    the digest of the same numbers written as strings in JSON Lines or Parquet, and not that of JSON numbers.
    Missing cells do not exist in CSV either; null in JSON Lines and in Parquet are the same null.

    Raises:
        InputError: see `canonical_row`.
    """
    return digest_rows(canonical_row(row, columns, number=i) for i, row in enumerate(rows, start=1))
