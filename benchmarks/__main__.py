"""``python -m benchmarks [--quick] [--results FILE] [NAME…]``: run, print the table, keep it and its plot."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tabulate import tabulate

from benchmarks.result import Result

NAMES = ("in_process", "http", "pacing", "decoding", "footprint", "measure", "peers")
"""The modules, each with ``run(quick: bool) -> list[Result]``."""

NOT_QUICK = frozenset({"peers"})
LATEST = Path(__file__).parent / "results" / "latest.json"
VERDICTS = {True: "met", False: "MISSED", None: "not run"}


def run(names: Sequence[str], *, quick: bool) -> list[Result]:
    """The rows of the modules ``names``, in that order."""
    rows: list[Result] = []
    for name in names:
        print(f"… {name}", file=sys.stderr, flush=True)
        rows += importlib.import_module(f"benchmarks.{name}").run(quick)
    return rows


def table(rows: Sequence[Result]) -> str:
    """The rows for a reader."""
    headers = ("", "ours", "theirs", "peer", "ratio", "target", "", "unit", "runs")
    cells = [
        (
            row.name,
            _figure(row.ours, row.ours_range),
            _figure(row.theirs, row.theirs_range),
            row.peer,
            "" if row.ratio is None else f"{row.ratio:.3g}",
            row.target,
            VERDICTS[row.met],
            row.unit,
            row.runs or "",
        )
        for row in rows
    ]
    notes = [f"{row.name}: {row.note}" for row in rows if row.note]
    return "\n".join([tabulate(cells, headers, disable_numparse=True), "", *notes])


def _figure(value: float | None, between: tuple[float, float] | None) -> str:
    if value is None:
        return ""
    if between is None or between[0] == between[1]:
        return f"{value:.4g}"
    return f"{value:.4g} [{between[0]:.4g}–{between[1]:.4g}]"


def keep(rows: Sequence[Result], path: Path) -> None:
    """Write the rows as JSON, and their plot beside it where matplotlib is installed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(row) for row in rows], ensure_ascii=False, indent=1)
    path.write_text(f"{text}\n", encoding="utf-8")
    try:
        from benchmarks.plot import plot
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        print("no plot: matplotlib is not installed (pip install 'fairmark[bench]')", file=sys.stderr)
    else:
        plot(rows, path.with_suffix(".svg"))


def main(arguments: Sequence[str]) -> int:
    """0 if no goal was missed, 1 if one was."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, no peers to install")
    parser.add_argument("--results", type=Path, default=LATEST, metavar="FILE", help="default: %(default)s")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    names = asked.names or [name for name in NAMES if not (asked.quick and name in NOT_QUICK)]
    rows = run(names, quick=asked.quick)
    keep(rows, asked.results)
    print(table(rows))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
