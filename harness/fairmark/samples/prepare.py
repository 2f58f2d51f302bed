"""The preparing process: ``python -m fairmark.samples.prepare``, a request on stdin, progress on stdout.

Only this process imports `datasets`. The request is a JSON object: ``columns``, ``out`` (the Parquet file
to write), ``cache`` (a new folder) and either ``path`` and ``format``, or ``hub`` (the fields of a
`HubSource`). Every line on stdout is a JSON object: ``{"rows": n}`` while it reads and, if the input cannot
be used, ``{"error": {...}}`` with the arguments of an `InputError`. The exit code is then 2.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.samples.content import canonical_row, digest_rows
from fairmark.samples.read import read_rows
from fairmark.samples.source import FileFormat, HubSource, SourceFile, file_format, hash_file

__all__ = ["CONTENT_KEY", "FILES_KEY", "main", "prepare_rows"]

CONTENT_KEY: Final = b"fairmark.content_sha256"
FILES_KEY: Final = b"fairmark.files"
_PROGRESS_ROWS = 1000


def _say(message: Mapping[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _files(request: Mapping[str, Any], cache: Path) -> list[tuple[Path, FileFormat]]:
    if "path" in request:
        return [(Path(request["path"]), request["format"])]
    from fairmark.samples.hub import download

    source = HubSource(**request["hub"])
    files: list[tuple[Path, FileFormat]] = []
    for path in download(source, cache / "hub"):
        kind = file_format(path.name)
        if kind is None:
            raise InputError(
                f"its file {path.name!r} is in a format that is not read",
                field="samples.source",
                value=f"hub:{source.dataset}@{source.commit}",
                accepted="data sets of jsonl, csv or parquet files",
            )
        files.append((path, kind))
    return files


def _canonical_rows(
    files: Sequence[tuple[Path, FileFormat]], columns: Sequence[str], cache: Path
) -> Iterator[str]:
    number = 0
    for position, (path, kind) in enumerate(files):
        for row in read_rows(path, kind, columns, cache / f"datasets-{position}"):
            number += 1
            yield canonical_row(row, columns, number=number)
            if number % _PROGRESS_ROWS == 0:
                _say({"rows": number})


def prepare_rows(request: Mapping[str, Any]) -> None:
    """Write the rows that ``request`` asks for; see the module's text for its fields.

    Raises:
        InputError: the source cannot be used.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    cache, out = Path(request["cache"]), Path(request["out"])
    files = _files(request, cache)
    hashed = [SourceFile(path.name, hash_file(path)) for path, _ in files]
    rows = list(_canonical_rows(files, request["columns"], cache))
    table = pa.table({"index": pa.array(range(len(rows)), pa.int64()), "row": pa.array(rows, pa.string())})
    metadata = {
        CONTENT_KEY: digest_rows(rows).encode(),
        FILES_KEY: json.dumps([asdict(file) for file in hashed]).encode(),
    }
    pq.write_table(table.replace_schema_metadata(metadata), out, compression="zstd")


def main() -> int:
    """Serve one request; see the module's text for the protocol."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    try:
        prepare_rows(json.load(sys.stdin))
    except InputError as error:
        fields = ("problem", "source", "field", "value", "accepted", "line")
        _say({"error": {name: getattr(error, name) for name in fields}})
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
