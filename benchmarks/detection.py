"""``python -m benchmarks.detection [--quick] [NAME…]``: how often the tests are wrong.

The tables of docs/metrics.md, from simulations of known truth; the seeds are fixed, so they print the same
numbers again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tabulate import tabulate

from fairmark.measure.dependence import effective_size, variance_inflation
from fairmark.measure.distribution import interval
from fairmark.measure.held_answers import ALARM_LOG10, log10_capital
from fairmark.measure.steady import backlog, drift, mser5
from fairmark.measure.stopping import queries_needed

Int64s = npt.NDArray[np.int64]
Table = tuple[list[str], list[list[str]]]

PERCENTILE = 0.99


def fifo(
    random: np.random.Generator, n: int, load: float, service: npt.NDArray[np.float64]
) -> tuple[Int64s, Int64s]:
    """Arrivals (Poisson, one a second) and completions of a queue with one server, in ns.

    By Lindley's recursion: a wait is the sum of service less gaps since the last time the queue was empty.
    """
    gaps = random.exponential(1.0, n)
    steps = np.concatenate([[0.0], np.cumsum(service[:-1] * load - gaps[1:])])
    wait = steps - np.minimum.accumulate(steps)
    arrive = np.cumsum(gaps)
    done = arrive + wait + service * load
    return (arrive * 1e9).astype(np.int64), (done * 1e9).astype(np.int64)


def steady(quick: bool) -> Table:
    """The rules on steadiness, on queues with service times of cv 0.5."""
    runs = 20 if quick else 200
    headers = [
        "queue",
        "overload, n = 64 / 300 / 3000",
        "transient-ends, 1000 / 3000",
        "drift, 1000 / 3000",
    ]
    rows = []
    for load in (0.6, 0.9, 1.1, 1.5, 3.0):
        random = np.random.default_rng(round(load * 10))

        def share(
            n: int,
            found: Callable[[Int64s, Int64s], bool],
            load: float = load,
            random: np.random.Generator = random,
        ) -> str:
            queues = (fifo(random, n, load, random.gamma(4, 0.25, n)) for _ in range(runs))
            return f"{sum(found(*queue) for queue in queues) / runs:.2f}"

        kind = "false alarms" if load < 1 else "detections"
        rows.append(
            [
                f"ρ = {load:g} ({kind})",
                " / ".join(share(n, _overloaded) for n in (64, 300, 3000)),
                " / ".join(share(n, _never_settled) for n in (1000, 3000)),
                " / ".join(share(n, _drifted) for n in (1000, 3000)),
            ]
        )
    return headers, rows


def short(quick: bool) -> Table:
    """Why drift is not judged in short runs: its false alarms on 64 queries of a steady queue."""
    runs = 100 if quick else 1000
    rows = []
    for load in (0.6, 0.9):
        random = np.random.default_rng(round(load * 10))
        queues = (fifo(random, 64, load, random.gamma(4, 0.25, 64)) for _ in range(runs))
        rows.append(
            [f"ρ = {load:g} (false alarms)", f"{sum(_drifted(*queue) for queue in queues) / runs:.2f}"]
        )
    return ["queue", "drift, n = 64"], rows


def _overloaded(arrive: Int64s, done: Int64s) -> bool:
    found = backlog(arrive, done)
    return bool(found["unserved_share"] > 0.25 and found["growth"] > 0.8 * found["growth_scale"])


def _never_settled(arrive: Int64s, done: Int64s) -> bool:
    return bool(mser5(done - arrive)["truncated_share"] >= 0.5)


def _drifted(arrive: Int64s, done: Int64s) -> bool:
    found = drift(done - arrive)
    return bool(found["kendall_p"] < 0.01 and abs(found["half_change"]) > 0.05)


def percentiles(quick: bool) -> Table:
    """Early stopping and intervals for p99 on M/M/1, n = 10 000, whose sojourn times are exponential."""
    runs, n = (20 if quick else 300), 10_000
    headers = [
        "load",
        "a failing system (1.5 % over) passes: LoadGen / adjusted",
        "a good one (0.3 % over) passes: LoadGen / adjusted",
        "the textbook 95 % interval for p99 covers",
        "ours covers / is given",
    ]
    rows = []
    for load in (0.01, 0.5, 0.8, 0.9):
        random = np.random.default_rng(round(load * 100))
        mean_ns = load / (1 - load) * 1e9
        passed = {share: [0, 0] for share in (0.015, 0.003)}
        textbook = ours = given = 0
        for _ in range(runs):
            arrive, done = fifo(random, n, load, random.exponential(1.0, n))
            latency = (done - arrive)[n // 10 :]  # the queue starts empty
            for share, counts in passed.items():
                over = latency > -mean_ns * np.log(share)
                counts[0] += _passes(len(over), int(over.sum()))
                vif = variance_inflation(over, 20)
                counts[1] += _passes(int(len(over) / vif), int(np.ceil(over.sum() / vif)))
            truth, ordered = -mean_ns * np.log(1 - PERCENTILE), np.sort(latency)
            textbook += _covers(interval(ordered, PERCENTILE, len(ordered)), truth)
            beyond = latency >= ordered[int(len(ordered) * PERCENTILE)]
            adjusted = interval(ordered, PERCENTILE, effective_size(beyond))
            given += "undefined" not in adjusted
            ours += _covers(adjusted, truth)
        covered = f"{ours / given:.2f} / {given / runs:.2f}" if given else "– / 0.00"
        rows.append(
            [
                f"{load:g}",
                *(" / ".join(f"{count / runs:.2f}" for count in counts) for counts in passed.values()),
                f"{textbook / runs:.2f}",
                covered,
            ]
        )
    return headers, rows


def _passes(n: int, over: int) -> bool:
    return n >= queries_needed(over, PERCENTILE)


def _covers(found: dict[str, Any], truth: float) -> bool:
    return "undefined" not in found and found["low_ns"] <= truth <= found["high_ns"]


def answers(quick: bool) -> Table:
    """The test of answers under load: 20 % of the 0/1 scores change between phases, more for the worse."""
    runs = 100 if quick else 2000
    sizes = (64, 250, 1000)
    random = np.random.default_rng(5)
    rows = []
    for drop in (0.0, 0.01, 0.03, 0.05, 0.1, 0.2):
        shares = []
        for rows_scored in sizes:
            drops = random.choice(
                [1.0, -1.0, 0.0], p=[0.1 + drop / 2, 0.1 - drop / 2, 0.8], size=(runs, rows_scored)
            )
            alarms = sum(bool(log10_capital(one).max() >= ALARM_LOG10) for one in drops)
            shares.append(f"{alarms / runs:.3f}")
        kind = "false alarms" if drop <= 0.01 else "detections"
        rows.append([f"{drop:g} ({kind})", *shares])
    return ["mean drop", *(f"{size} rows" for size in sizes)], rows


TABLES: dict[str, Callable[[bool], Table]] = {
    "steady": steady,
    "short": short,
    "percentiles": percentiles,
    "answers": answers,
}


def main(arguments: Sequence[str]) -> int:
    """Print the tables that are asked for, all by default."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs of each")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TABLES))
    asked = parser.parse_args(arguments)
    for name in asked.names or TABLES:
        if name not in TABLES:
            parser.error(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        headers, rows = TABLES[name](asked.quick)
        print(f"{name}\n\n{tabulate(rows, headers, tablefmt='github', disable_numparse=True)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
