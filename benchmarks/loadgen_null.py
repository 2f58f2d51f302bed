"""MLCommons LoadGen with a null system in Python: ``python -m benchmarks.loadgen_null SCENARIO QUERIES QPS``.

A process of its own, since LoadGen keeps global state. Prints one line of JSON: samples per second, memory
grown during the test, and the times at which queries were at the system's door. Without trace, which is
LoadGen's fastest mode: it keeps latencies only.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from array import array
from pathlib import Path
from time import monotonic_ns
from typing import Any

import mlperf_loadgen as lg

from benchmarks.null_suts import from_here, resident
from fairmark.scenario.load import NAMED_SEEDS

ROWS = 1000


def answer(samples: list[Any]) -> None:
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])


class Door:
    """Notes when queries arrive."""

    def __init__(self) -> None:
        self.entered = array("q")

    def issue(self, samples: list[Any]) -> None:
        self.entered.append(monotonic_ns())
        answer(samples)


def test(scenario: str, queries: int, qps: float) -> dict[str, Any]:
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = 0
    settings.min_query_count = queries
    settings.max_query_count = queries
    for name, seed in NAMED_SEEDS["mlperf-6.1"].items():
        setattr(settings, f"{name}_rng_seed", int(seed))
    if scenario == "Server":
        settings.server_target_qps = qps
    elif scenario == "Offline":
        settings.offline_expected_qps = qps
    door = Door()
    issue = door.issue if scenario == "Server" else answer
    with tempfile.TemporaryDirectory() as folder:
        output = lg.LogOutputSettings()
        output.outdir = folder
        log = lg.LogSettings()
        log.log_output = output
        log.enable_trace = False
        before = from_here()
        system = lg.ConstructSUT(issue, lambda: None)
        library = lg.ConstructQSL(ROWS, ROWS, lambda _: None, lambda _: None)
        lg.StartTestWithLogSettings(system, library, settings, log, f"{folder}/none.config")
        grown = resident("VmHWM") - before
        lg.DestroyQSL(library)
        lg.DestroySUT(system)
        summary = (Path(folder) / "mlperf_log_summary.txt").read_text()
    return {"qps": rate(summary, scenario), "grown_bytes": grown, "entered_ns": list(door.entered)}


def rate(summary: str, scenario: str) -> float | None:
    """As LoadGen states it; for Server it is the offered one, and of no interest."""
    label = {"SingleStream": "QPS w/ loadgen overhead", "Offline": "Samples per second"}.get(scenario)
    found = label and re.search(rf"{label}\s*: ([\d.e+]+)", summary)
    return float(found[1]) if found else None


if __name__ == "__main__":
    print(json.dumps(test(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))))
