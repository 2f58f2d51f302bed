"""Runs into a bundle with its report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairmark.bundle.seal import seal
from fairmark.report.html import html_report
from fairmark.report.run_data import load_run

__all__ = ["submit"]


def submit(
    runs: Sequence[Path], out: Path, *, submitter: str, division: str, system: Path | None = None
) -> Path:
    """Seal ``runs`` below ``out`` with a rendered report at the root; see `fairmark.bundle.seal.seal`."""
    page = html_report([load_run(folder) for folder in runs])
    return seal(runs, out, submitter=submitter, division=division, system=system, report_html=page)
