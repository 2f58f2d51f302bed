"""A run under the system's own profiler: never measured, never judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairmark.drive.job import Clock, Progress
from fairmark.drive.stop import StopSignal
from fairmark.errors import SutError
from fairmark.evidence.json_file import read_json
from fairmark.report.profile import Operator, read_profile, trace_files
from fairmark.study.prepare import Prepared
from fairmark.study.run import RECORD, SutChoice, drive_once

__all__ = ["profile_once"]


def profile_once(
    prepared: Prepared,
    choice: SutChoice,
    *,
    out: Path,
    stop: StopSignal,
    progress: Callable[[Progress], None],
    clock: Clock = "real",
) -> tuple[dict[str, Any], list[Operator]]:
    """Drive the warm-up of ``prepared``, whose mode is ``profile``, with the system's profiler on.

    Returns:
        The record, without metrics and without a verdict; and the operators of the traces in
        ``out/profile``, by falling own time.

    Raises:
        InputError, SutError: as for `fairmark.study.run.drive_once`; and the system has no profiler, or its
            profiler left no trace.
        EvidenceError: a trace cannot be read.
    """
    drive_once(prepared, choice, out=out, stop=stop, progress=progress, calibration="none", clock=clock)
    record: dict[str, Any] = read_json(out / RECORD)
    if record["outcome"]["stop_reason"] == "complete" and not trace_files(out):
        raise SutError(f"the profiler of {choice.name} left no trace; see {out / 'evidence' / 'logs'}")
    return record, read_profile(out)
