"""The in-process path beside MLCommons LoadGen with a null system in Python, evidence on, run in turn.

Ours is the worker process of a real run on a real live store, from the epoch to the last stamp; only what
comes after the run is left out. LoadGen's rates are those it states itself. Neither is pinned: both have a
second thread that needs a place to run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from benchmarks.null_suts import NOTES
from benchmarks.result import Goal, Result, against_limit, against_peer
from fairmark.drive.crew import Crew
from fairmark.drive.inprocess.content import write_samples
from fairmark.drive.inprocess.plugin import Isolation, PluginOrder, Shape
from fairmark.drive.inprocess.run import WORKER
from fairmark.drive.orders import Orders, PhaseOrders
from fairmark.drive.policy import Limits
from fairmark.drive.traffic import live_phase
from fairmark.evidence.live import LiveStore, create_store
from fairmark.evidence.recorded import ENDS, EVENTS
from fairmark.samples.library import load_library
from fairmark.scenario.load import parse_scenario
from fairmark.traffic.plan import Plan, make_plan
from fairmark.traffic.settings import traffic_settings

__all__ = ["run"]

PEER: Final = "LoadGen"
PLUGIN: Final = str(Path(__file__).with_name("null_suts.py"))
ROWS: Final = 1000
PATIENCE_NS: Final = 60_000_000_000

SCENARIO: Final = """
schema = "fairmark/scenario/1"
name = "null"
scenario = "{kind}"
model = {{ name = "null" }}
samples = {{ source = "rows.jsonl", input = "data", prompt = "n", performance_sample_count = {rows} }}
generation = {{ max_output_tokens = 1 }}
run = {{ min_query_count = {queries} }}
settings = {{ target_qps = {qps} }}
"""


@dataclass(frozen=True)
class Side:
    """What one run of one side gave.

    Attributes:
        qps: samples per second.
        grown_bytes: resident memory, from before the run to its peak.
        lag_ns: int64[queries], from scheduled to the system's door.
        send_lag_ns: int64[queries], from scheduled to issued; empty for LoadGen, which does not say.
    """

    qps: float
    grown_bytes: int
    lag_ns: npt.NDArray[np.int64]
    send_lag_ns: npt.NDArray[np.int64]


def _us(times_ns: npt.NDArray[np.int64], percentile: int) -> float:
    return float(np.percentile(times_ns, percentile, method="lower")) / 1e3


def ours(
    sut: str, shape: Shape, kind: str, queries: int, qps: float = 1000.0, isolation: Isolation = "in_process"
) -> Side:
    """Drive the null system ``sut`` in a worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plan = _plan(folder, kind, queries, qps)
        store = _store(folder, plan, PluginOrder(sut, [PLUGIN], [], shape, str(folder), isolation=isolation))
        with Crew(store, [], folder, module=WORKER) as crew:
            if not crew.drive(0, lambda: None):
                raise RuntimeError(f"{sut} in {kind}: {crew.detail}")
        notes = json.loads((folder / NOTES).read_text())
        return _read(store, notes)


def _plan(folder: Path, kind: str, queries: int, qps: float) -> Plan:
    (folder / "rows.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(ROWS)))
    text = SCENARIO.format(kind=kind, rows=ROWS, queries=queries, qps=qps).encode()
    scenario = parse_scenario(text, source=str(folder / "null.toml"))
    library = load_library(scenario.samples, scenario.generation, base=folder)
    write_samples(folder, library, range(ROWS))
    return make_plan(traffic_settings(scenario, "performance", ROWS))


def _store(folder: Path, plan: Plan, plugin: PluginOrder) -> LiveStore:
    kind = plan.settings.scenario
    open_loop = kind in ("Server", "Offline")
    limits = Limits() if open_loop else Limits(min_units=plan.settings.min_query_count)
    slots = {"Server": None, "Offline": 1 << 62}.get(kind, 1)
    phase = PhaseOrders(limits, slots, 0)
    Orders([], [phase], PATIENCE_NS, PATIENCE_NS, [], os.getpid()).write(folder)
    plugin.write(folder)
    phases = [live_phase("performance", plan)]
    return create_store(folder, phases, workers=1, dialect=EVENTS, stream=True, of_tokens=False)


def _read(store: LiveStore, notes: dict[str, Any]) -> Side:
    """Every sample of the plan must have completed, or there is nothing to compare."""
    stamps = {name: np.array(view) for name, view in store.columns().stamps._asdict().items()}
    issued = stamps["issued"] != 0
    assert set(stamps["outcome"][issued].tolist()) == {ENDS.index("complete")}
    epoch_ns = store.control().epoch_ns(0)
    span_s = (int(stamps["completed"].max()) - epoch_ns) / 1e9
    entered = np.array(notes["entered_ns"], dtype=np.int64)
    due_ns = store.phases[0].due_ns
    lag, send_lag = entered, np.empty(0, np.int64)
    if due_ns is not None and len(entered):
        lag, send_lag = entered - epoch_ns - due_ns, stamps["issued"] - epoch_ns - due_ns
    return Side(int(issued.sum()) / span_s, notes["grown_bytes"], lag, send_lag)


def theirs(kind: str, queries: int, qps: float = 1000.0) -> Side:
    """LoadGen's start is not visible from Python: its lag counts from its least, which flatters it."""
    command = [sys.executable, "-m", "benchmarks.loadgen_null", kind, str(queries), str(qps)]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    entered = np.array(answer["entered_ns"], dtype=np.int64)
    if len(entered):
        with tempfile.TemporaryDirectory() as name:
            due_ns = _plan(Path(name), kind, queries, qps).scheduled_ns[: len(entered)]
        entered -= due_ns
        entered -= entered.min()
    return Side(answer["qps"] or 0.0, answer["grown_bytes"], entered, np.empty(0, np.int64))


def _in_turn(times: int, one: Callable[[], Side], other: Callable[[], Side]) -> tuple[list[Side], list[Side]]:
    pairs = [(one(), other()) for _ in range(times)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def _rates(sides: Sequence[Side]) -> list[float]:
    return [side.qps for side in sides]


def _single_stream(times: int, queries: int) -> list[Result]:
    goals: list[tuple[Shape, str, float]] = [
        ("callback", "CallbackSUT", 3),
        ("sync", "SyncSUT", 2.5),
        ("async", "AsyncSUT", 1.2),
    ]
    rows = []
    for shape, name, least in goals:
        mine, peer = _in_turn(
            times,
            lambda shape=shape: ours(shape, shape, "SingleStream", queries),
            lambda: theirs("SingleStream", queries),
        )
        rows.append(
            against_peer(
                f"SingleStream, {name}",
                _rates(mine),
                _rates(peer),
                peer=PEER,
                goal=Goal("≥", least),
                unit="queries/s",
            )
        )
    return rows


def _offline(times: int, queries: int) -> list[Result]:
    goals: list[tuple[str, Shape, str, float]] = [
        ("arrays", "callback", "array completion", 10),
        ("batch", "batch", "BatchSUT of 256", 2.5),
    ]
    rows = []
    for sut, shape, name, least in goals:
        mine, peer = _in_turn(
            times,
            lambda sut=sut, shape=shape: ours(sut, shape, "Offline", queries, 1e6),
            lambda: theirs("Offline", queries, 1e6),
        )
        rows.append(
            against_peer(
                f"Offline, {name}",
                _rates(mine),
                _rates(peer),
                peer=PEER,
                goal=Goal("≥", least),
                unit="samples/s",
            )
        )
        if sut == "arrays":
            each = [side.grown_bytes / queries for side in mine]
            least_memory = min(side.grown_bytes for side in peer) / queries
            rows.append(
                against_limit(
                    "Offline, resident memory",
                    each,
                    goal=Goal("≤", 64),
                    unit="B/sample",
                    note=f"LoadGen's least is {least_memory:.0f} B/sample",
                )
            )
    return rows


def _server(times: int, qps: int, queries: int) -> list[Result]:
    mine, peer = _in_turn(
        times,
        lambda: ours("arriving", "callback", "Server", queries, qps),
        lambda: theirs("Server", queries, qps),
    )
    return [
        against_peer(
            f"Server at {qps}/s, p{percentile} lag at the system's door",
            [_us(side.lag_ns, percentile) for side in mine],
            [_us(side.lag_ns, percentile) for side in peer],
            peer=PEER,
            goal=Goal("≤", most),
            unit="µs",
        )
        for percentile, most in ((50, 0.05), (99, 0.5))
    ]


def _beside_a_busy_engine(times: int) -> list[Result]:
    """An engine one of whose threads never lets go of the interpreter lock of its own accord, at 200/s."""
    apart, together = _in_turn(
        times,
        lambda: ours("busy", "sync", "Server", 400, 200, "subprocess"),
        lambda: ours("busy", "sync", "Server", 400, 200, "in_process"),
    )
    return [
        against_peer(
            f"p{percentile} send lag beside a busy thread, issuer in its own process",
            [_us(side.send_lag_ns, percentile) for side in apart],
            [_us(side.send_lag_ns, percentile) for side in together],
            peer="issuer in the engine's process",
            goal=Goal("≤", 0.5),
            unit="µs",
        )
        for percentile in (50, 99)
    ]


def run(quick: bool) -> list[Result]:
    """All rows; ``quick``: three short runs of each side instead of five longer ones."""
    times, stream, seconds = (3, 300_000, 2) if quick else (5, 1_000_000, 5)
    return [
        *_single_stream(times, stream),
        *_offline(times, 1_000_000),
        *_server(times, 1000, 1000 * seconds),
        *_server(times, 10_000, 10_000 * seconds),
        *_beside_a_busy_engine(times),
    ]
