"""What comes after a run: 10^5 streamed responses of 32 chunks, from raw bytes to sealed tables."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.driver import DIALECT
from benchmarks.mock import CHUNKS, Shape, answer
from benchmarks.result import Goal, Result, against_limit
from fairmark.evidence.live import LivePhase, create_store, open_store
from fairmark.evidence.seal import seal
from fairmark.evidence.store import OUTCOMES, WIRE, LogWriter

__all__ = ["run"]

RESPONSES: Final = 100_000
QUICK_RESPONSES: Final = 20_000
GOAL_S: Final = 10.0
_SHAPES: Final[tuple[tuple[Shape, str], ...]] = (
    ("stream", "in one read"),
    ("stream-by-chunk", "in a read per chunk"),
)


def run(quick: bool) -> list[Result]:
    """The rows; fewer responses are scaled up, which is fair because the time is linear in them."""
    responses, rounds = (QUICK_RESPONSES, 1) if quick else (RESPONSES, 3)
    rows = []
    for shape, how in _SHAPES:
        with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
            folder = Path(name)
            write_store(folder, responses, shape)
            seconds = [_seal_s(folder) * RESPONSES / responses for _ in range(rounds)]
        rows.append(
            against_limit(
                f"decoding 10^5 responses of {CHUNKS} chunks, {how}",
                seconds,
                goal=Goal("≤", GOAL_S),
                unit="s of CPU",
                note=f"scaled up from {responses} responses" if responses < RESPONSES else None,
            )
        )
    return rows


def write_store(folder: Path, responses: int, shape: Shape) -> None:
    """The live store of a run that has ended."""
    index = np.zeros(responses, dtype=np.int64)
    phase = LivePhase("performance", index, np.arange(responses + 1, dtype=np.int64), None)
    store = create_store(folder, [phase], workers=1, dialect=DIALECT, stream=True)
    store.control().release(0, 1)
    stamps = store.columns(write=True).stamps
    log = LogWriter(store.log_stem(0))
    reads = answer(shape)
    for seq in range(responses):
        t_ns = 1 + seq * 1_000_000
        stamps.issued[seq] = stamps.sent[seq] = t_ns
        for data in reads:
            t_ns += 20_000
            log.append(WIRE, seq, t_ns, data)
        stamps.completed[seq], stamps.status[seq], stamps.connection[seq] = t_ns, 200, 1
        stamps.outcome[seq] = OUTCOMES.index("complete")
    log.close()


def _seal_s(folder: Path) -> float:
    """CPU seconds that sealing takes in a process of its own; on a free core that is how long it takes."""
    command = [sys.executable, "-m", "benchmarks.decoding", str(folder)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(arguments: Sequence[str]) -> None:
    """Seal the store ``arguments[0]`` into a folder that is thrown away and print the CPU seconds."""
    store = open_store(Path(arguments[0]))
    with tempfile.TemporaryDirectory(prefix="fairmark-") as name:
        began = time.process_time()
        sealed = seal(store, Path(name))
        took_s = time.process_time() - began
    if sealed.completed["performance"] != store.samples:
        raise RuntimeError(f"{sealed.completed} of {store.samples} responses were read as complete")
    print(took_s)


if __name__ == "__main__":
    main(sys.argv[1:])
