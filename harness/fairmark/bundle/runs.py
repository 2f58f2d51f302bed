"""Finding run folders: one that is named, or all of those below a bundle or a folder of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairmark.bundle.run_folder import RECORD, is_run
from fairmark.errors import InputError

__all__ = ["runs_in"]


def runs_in(paths: Sequence[Path]) -> list[Path]:
    """The run folders that ``paths`` mean, sorted within each path.

    Raises:
        InputError: a path does not exist, or holds no finished run.
    """
    found: list[Path] = []
    for path in paths:
        below = [path] if is_run(path) else sorted(p.parent for p in path.rglob(RECORD))
        if not below:
            unfinished = (
                " It holds a run that was killed: fairmark recover closes its log."
                if (path / "live").is_dir()
                else ""
            )
            problem = "holds no finished run" if path.exists() else "does not exist"
            raise InputError(
                f"{problem}.{unfinished}".rstrip("."),
                field="PATH",
                value=str(path),
                accepted="a run folder, a bundle, or a folder of runs",
            )
        found.extend(below)
    return found
