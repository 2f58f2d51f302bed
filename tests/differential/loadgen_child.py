"""Runs LoadGen itself: one JSON case a line on stdin, one JSON answer a line on stdout.

A process of its own, since LoadGen keeps global state and ends the process on some mistakes. Its logs go to
the folder given as the only argument; the answer says what the system under test saw.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg


class Sut:
    """Answers every sample after the next delay of a cycle, on the issuing thread.

    With ``hold`` it answers a query only when so many later ones have been issued, or all have. The first
    sample of each series (one run of find-peak) takes the next delay of ``first_us`` longer.
    """

    def __init__(
        self, delays_us: list[int], tokens: list[int] | None, hold: int = 0, first_us: list[int] | None = None
    ) -> None:
        self.queries: list[list[int]] = []
        self.series_began = [0]
        self._hold = hold
        self._held: list[Any] = []
        self._first_us = first_us or []
        self.first_tokens: dict[int, tuple[int, int]] = {}
        self.tokens: dict[int, int] = {}
        self._delays = itertools.cycle(delays_us)
        self._counts = itertools.cycle(tokens) if tokens else None

    def issue(self, samples: list[Any]) -> None:
        self.queries.append([s.index for s in samples])
        if self._hold:
            self._held += samples
            while len(self._held) > self._hold:
                self._answer(self._held.pop(0).id)
            return
        series = len(self.series_began) - 1
        if len(self.queries) == self.series_began[-1] + 1 and series < len(self._first_us):
            time.sleep(self._first_us[series] / 1e6)
        if self._counts is None and len(samples) > 64:
            self._answer_at_once(samples)
            return
        for sample in samples:
            self._wait(next(self._delays))
            self._answer(sample.id)

    def flush(self) -> None:
        self.series_began.append(len(self.queries))
        while self._held:
            self._answer(self._held.pop(0).id)

    @staticmethod
    def _wait(delay_us: int) -> None:
        until = time.perf_counter_ns() + delay_us * 1000
        while time.perf_counter_ns() < until:
            pass

    def _answer(self, sample: int) -> None:
        if self._counts is None:
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample, 0, 0)])
            return
        response = lg.QuerySampleResponse(sample, 0, 0, next(self._counts))
        self.tokens[sample] = response.n_tokens
        before = time.time_ns()  # LoadGen's clock is the system clock
        lg.FirstTokenComplete([response])
        self.first_tokens[sample] = (before, time.time_ns())
        self._wait(next(self._delays))
        lg.QuerySamplesComplete([response])

    def _answer_at_once(self, samples: list[Any]) -> None:
        half = len(samples) // 2
        for part in (samples[:half], samples[half:]):
            self._wait(next(self._delays))
            lg.QuerySamplesComplete([lg.QuerySampleResponse(s.id, 0, 0) for s in part])


def run(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, case["scenario"])
    settings.mode = getattr(lg.TestMode, case["mode"])
    for name, value in case["settings"].items():
        setattr(settings, name, value)
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    log = lg.LogSettings()
    log.log_output = output
    log.enable_trace = True
    loaded: list[list[int]] = []
    sut = Sut(case["delays_us"], case.get("tokens"), case.get("hold", 0), case.get("first_us"))
    handle = lg.ConstructSUT(sut.issue, sut.flush)
    library = lg.ConstructQSL(
        case["total"], case["performance"], lambda samples: loaded.append(list(samples)), lambda _: None
    )
    try:
        lg.StartTestWithLogSettings(handle, library, settings, log, str(folder / "no-audit.config"))
    finally:
        lg.DestroyQSL(library)
        lg.DestroySUT(handle)
    return {
        "queries": sut.queries,
        "loaded": loaded,
        "first_tokens": list(sut.first_tokens.values()),
        "tokens": list(sut.tokens.values()),
    }


def configured(case: dict[str, Any]) -> dict[str, Any]:
    """What `TestSettings.FromConfig` makes of configuration files, in the order given."""
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, case["scenario"])
    codes = [settings.FromConfig(path, case["model"], case["scenario"], kind) for path, kind in case["files"]]
    values = {name: getattr(settings, name) for name in case["read"]}
    return {"codes": codes, "values": values}


def main() -> None:
    folder = Path(sys.argv[1])
    for line in sys.stdin:
        case = json.loads(line)
        answer = configured(case) if "files" in case else run(case, folder)
        print(json.dumps(answer), flush=True)


main()
