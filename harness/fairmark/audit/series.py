"""Are all repetitions there, and does what is said of them together follow from their records?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fairmark.audit.numbers import differences
from fairmark.audit.problems import Problems
from fairmark.audit.subject import record_of
from fairmark.bundle.documents import parse_json, schema_violation
from fairmark.bundle.findings import Finding
from fairmark.bundle.run_folder import RECORD
from fairmark.judge.series import SERIES, incomplete, judge_series, series_of

__all__ = ["check_repetitions", "check_series"]

_FIX: Final = "keep the repetitions together as `fairmark run` left them, the failed ones too"


def check_repetitions(runs: Mapping[str, Path]) -> Iterator[Finding]:
    """A finding for each repetition that a bundle's runs ask for and the bundle does not hold.

    Args:
        runs: run folders by the prefix of their files in the bundle.
    """
    records = {prefix: record_of(folder, Problems()) for prefix, folder in runs.items()}
    places = {record["run_id"]: prefix for prefix, record in records.items() if record is not None}
    for group in series_of(record for record in records.values() if record is not None):
        file = f"{places[group[0]['run_id']]}{RECORD}"
        for lacking in incomplete(group):
            yield Finding("audit.repetitions", "error", file, lacking, _FIX)


def check_series(folder: Path, runs: Iterable[Path]) -> Iterator[Finding]:
    """Hold ``series.json`` in ``folder`` to the records of ``runs``, leaf by leaf."""
    try:
        recorded: Any = parse_json((folder / SERIES).read_bytes())
    except (OSError, ValueError) as error:
        yield Finding("audit.series", "error", SERIES, f"is not readable JSON ({error})", _FIX)
        return
    broken = schema_violation(recorded, "series.schema.json")
    if broken is not None:
        yield Finding("audit.series", "error", SERIES, f"{broken[0]}: {broken[1]}", _FIX)
        return
    records = [record for run in runs if (record := record_of(run, Problems())) is not None]
    groups = series_of(record for record in records if "verdict" in record and "metrics" in record)
    if len(groups) != 1:
        message = f"its folder holds the repetitions of {len(groups)} runs, not of one"
        yield Finding("audit.series", "error", SERIES, message, _FIX)
        return
    for path, found, expected in differences(recorded, judge_series(groups[0]), "series"):
        message = f"{path} is {found!r}; the records give {expected!r}"
        yield Finding("audit.series", "error", SERIES, message, _FIX)
    for lacking in incomplete(groups[0]):
        yield Finding("audit.repetitions", "error", SERIES, lacking, _FIX)
