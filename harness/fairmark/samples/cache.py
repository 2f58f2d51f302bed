"""Prepared samples: made once by the preparing process, kept as Parquet, read with pyarrow ever after.

An entry's name is a hash of the source's bytes (for a hub data set: of its commit), the format, the used
columns and the version of the preparation, so an entry can be missing but never stale.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from fairmark.errors import InputError
from fairmark.samples.content import digest_rows
from fairmark.samples.prepare import CONTENT_KEY, FILES_KEY
from fairmark.samples.source import HubSource, Source, SourceFile, hash_file

__all__ = ["Prepared", "cache_folder", "prepared", "run_preparation"]

_VERSION: Final = "fairmark/prepared-samples/1"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Canonical rows of a source, their content digest, and the files they were read from."""

    rows: Sequence[str]
    content_sha256: str
    files: tuple[SourceFile, ...]


def cache_folder() -> Path:
    """``$FAIRMARK_CACHE``, else ``$XDG_CACHE_HOME/fairmark``, else ``~/.cache/fairmark``."""
    own = os.environ.get("FAIRMARK_CACHE")
    if own:
        return Path(own)
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "fairmark"


def prepared(source: Source, columns: Sequence[str], progress: Callable[[int], None] | None) -> Prepared:
    """The rows of ``source``, from the cache or prepared now.

    Args:
        source: where the samples are.
        columns: the used columns.
        progress: called with the number of rows read so far, while a source is being prepared.

    Raises:
        InputError: the source cannot be read or does not hold what it should; the cache cannot be written.
    """
    if isinstance(source, HubSource):
        return _entry(asdict(source), {"hub": asdict(source)}, columns, progress)
    with source.open_path() as path:
        sha256 = hash_file(path)
        _check_embedded(source, sha256)
        identity = {"sha256": sha256, "format": source.format}
        request = {"path": str(path.absolute()), "format": source.format}
        found = _entry(identity, request, columns, progress)
        if [file.sha256 for file in found.files] != [sha256]:
            raise InputError("changed while it was being read", source=path)
        # Equal bytes may have been prepared under another name before.
        return Prepared(found.rows, found.content_sha256, (SourceFile(path.name, sha256),))


def _check_embedded(source: Source, sha256: str) -> None:
    pin = getattr(source, "sha256", sha256)
    if pin != sha256:
        raise InputError(
            f"the installed data file has SHA-256 {sha256}, fairmark was released with {pin}",
            source=getattr(source, "name", None),
            accepted="a reinstallation of fairmark",
        )


def _entry(
    identity: Mapping[str, Any],
    request: Mapping[str, Any],
    columns: Sequence[str],
    progress: Callable[[int], None] | None,
) -> Prepared:
    import rfc8785

    key = rfc8785.dumps({"version": _VERSION, "source": dict(identity), "columns": sorted(columns)})
    folder = cache_folder() / "samples"
    path = folder / f"{hashlib.sha256(key).hexdigest()}.parquet"
    found = _read(path)
    if found is None:
        _prepare_into(path, {**request, "columns": list(columns)}, progress)
        found = _read(path)
    if found is None:
        raise InputError("the sample cache does not keep what is written to it", source=path)
    return found


def _read(path: Path) -> Prepared | None:
    """A whole, undamaged entry, or None: a damaged one is prepared again, never used."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    metadata = table.schema.metadata or {}
    if "row" not in table.column_names or FILES_KEY not in metadata:
        return None
    rows = [str(row) for row in table.column("row").to_pylist()]
    digest = digest_rows(rows)
    if metadata.get(CONTENT_KEY) != digest.encode():
        return None
    files = tuple(SourceFile(**file) for file in json.loads(metadata[FILES_KEY]))
    return Prepared(rows, digest, files)


def _prepare_into(path: Path, request: Mapping[str, Any], progress: Callable[[int], None] | None) -> None:
    """Prepare beside ``path`` and rename into place, so that no reader ever sees half an entry."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix="preparing-", dir=path.parent)
    except OSError as error:
        raise InputError(
            f"the sample cache cannot be written: {error.strerror}",
            source=path.parent,
            accepted="a writable folder in FAIRMARK_CACHE",
        ) from error
    with scratch as name:
        folder = Path(name)
        out = folder / "rows.parquet"
        run_preparation({**request, "out": str(out), "cache": str(folder)}, folder, progress)
        out.replace(path)


def _environment(folder: Path, *, online: bool) -> dict[str, str]:
    private = {
        f"HF_{kind}_CACHE": str(folder / kind.lower()) for kind in ("DATASETS", "HUB", "XET", "MODULES")
    }
    quiet = {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    offline = {} if online else {"HF_HUB_OFFLINE": "1"}
    return {**os.environ, **private, **quiet, **offline}


def run_preparation(request: Mapping[str, Any], folder: Path, progress: Callable[[int], None] | None) -> None:
    """Have the preparing process serve ``request``, with ``folder`` for its caches and its log.

    Raises:
        InputError: the source cannot be used.
        RuntimeError: the process failed otherwise, which is a bug; the text holds its log.
    """
    log = folder / "stderr"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            # -P keeps the working folder, where a user's datasets.py may lie, off the import path.
            [sys.executable, "-P", "-m", "fairmark.samples.prepare"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=_environment(folder, online="hub" in request),
        )
    with process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        failure = _converse(process, request, progress)
        code = process.wait()
    if failure is not None:
        raise InputError(**failure)
    if code != 0:
        raise RuntimeError(f"the preparing process ended with {code}:\n{log.read_text(errors='replace')}")


def _converse(
    process: subprocess.Popen[str], request: Mapping[str, Any], progress: Callable[[int], None] | None
) -> dict[str, Any] | None:
    """Hand over the request, follow the progress, and give the error it ended with, if any."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it died early: the exit code and its log say why
        process.stdin.write(json.dumps(request))
        process.stdin.close()
    failure: dict[str, Any] | None = None
    for line in process.stdout:
        message = json.loads(line)
        failure = message.get("error", failure)
        if progress is not None and "rows" in message:
            progress(message["rows"])
    return failure
