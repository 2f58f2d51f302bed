"""The run folder up to the first query: made, filled with what the run was given, or taken back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairmark.drive.facts import run_id
from fairmark.drive.job import Job
from fairmark.drive.ledger import record_attempt
from fairmark.errors import InputError, SutError
from fairmark.evidence.closing import utc_now
from fairmark.evidence.live import LIVE
from fairmark.evidence.store import DiskFullError
from fairmark.evidence.tables import write_table

__all__ = ["begin", "make_folder", "preparing", "take_back", "write_given"]


def make_folder(out: Path) -> Path:
    """Make the run folder; it may hold logs already, but no run.

    Raises:
        InputError: it holds a run or cannot be made.
    """
    if (out / "run.json").exists() or (out / LIVE).exists():
        raise InputError("already holds a run", field="out", value=str(out), accepted="a new folder")
    try:
        (out / "evidence" / "logs").mkdir(parents=True, exist_ok=True)
        (out / LIVE).mkdir()
    except OSError as error:
        raise InputError(
            f"the run folder cannot be made ({error.strerror})", field="out", value=str(out)
        ) from error
    return out


def begin(job: Job) -> tuple[str, int]:
    """Enter the run into the ledger: when it started, and how many attempts there are with it."""
    started_utc = utc_now()
    attempts = record_attempt(
        job.workspace,
        run_id=run_id(job, started_utc),
        scenario_digest=job.scenario.digest,
        mode=job.mode,
        utc=started_utc,
        series=job.series,
    )
    return started_utc, attempts


@contextmanager
def preparing(out: Path) -> Iterator[None]:
    """Whatever fails inside leaves nothing behind.

    Raises:
        InputError: there is no space, or the run cannot be made from what the user gave.
    """
    try:
        yield
    except (InputError, SutError):
        take_back(out)
        raise
    except (DiskFullError, OSError) as error:
        take_back(out)
        raise InputError(
            f"the run cannot be prepared: {getattr(error, 'strerror', None) or error}",
            field="out",
            value=str(out),
            accepted="a writable disk with more space",
        ) from error


def write_given(job: Job) -> None:
    """Write what the run was given: scenario, references, recorded arrivals, samples."""
    evidence = job.out / "evidence"
    (job.out / "scenario.toml").write_bytes(job.scenario_source)
    if job.references is not None:
        (evidence / "references.jsonl").write_bytes(job.references)
    if job.arrivals is not None:
        (evidence / "arrivals.txt").write_bytes(job.arrivals)
    write_table(job.library.to_table(), evidence / "samples.parquet")


def take_back(out: Path) -> None:
    """Remove what a run that never began has written; logs of the SUT stay."""
    shutil.rmtree(out / LIVE)
    for path in (out / "scenario.toml", *(out / "evidence").glob("*.*")):
        path.unlink(missing_ok=True)
