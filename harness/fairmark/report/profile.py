"""The traces of a profiled run: which operators took the time.

A trace is in the Chrome format, as torch.profiler and engines built on it write it: complete events ``X``
with a start and a duration in us. Operators are events of the host (``cpu_op``) and of the device
(``kernel``, ``gpu_memcpy``, ``gpu_memset``). An operator's own time is its duration less that of the
operators it called on the same thread.
"""

from __future__ import annotations

import gzip
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairmark.errors import EvidenceError

__all__ = ["HEADERS", "TRACES", "Operator", "operators", "profile_table", "read_profile", "trace_files"]

TRACES: Final = "profile"
"""The folder of the traces inside a run folder."""

HEADERS: Final = ("operator", "on", "calls", "own ms", "share", "total ms")
"""Of `profile_table`; the share is that of the place's own time."""

_PLACES: Final = {"cpu_op": "host", "kernel": "device", "gpu_memcpy": "device", "gpu_memset": "device"}


@dataclass(frozen=True, slots=True)
class Operator:
    """All calls of one operator in a profile.

    Attributes:
        place: ``host`` or ``device``.
        self_us: time spent in it and in no operator that it called.
        total_us: time spent in it.
    """

    name: str
    place: str
    calls: int
    self_us: float
    total_us: float


def trace_files(folder: Path) -> list[Path]:
    """The traces of the run in ``folder``, by name."""
    found = (folder / TRACES).rglob("*") if (folder / TRACES).is_dir() else ()
    return sorted(path for path in found if path.name.endswith((".json", ".json.gz")))


def read_profile(folder: Path) -> list[Operator]:
    """The operators of all traces of the run in ``folder``, by falling own time; empty without a trace.

    Raises:
        EvidenceError: a file is not a trace.
    """
    return operators(map(_events, trace_files(folder)))


def operators(traces: Iterable[Iterable[Mapping[str, Any]]]) -> list[Operator]:
    """Add up the events of all ``traces`` by operator and place, by falling own time."""
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
    for events in traces:
        for place, calls in _threads(events):
            for name, self_us, total_us in _own_times(calls):
                entry = sums[name, place]
                entry[0] += 1
                entry[1] += self_us
                entry[2] += total_us
    found = [Operator(name, place, int(n), own, total) for (name, place), (n, own, total) in sums.items()]
    return sorted(found, key=lambda op: (-op.self_us, op.name))


def profile_table(found: Sequence[Operator], limit: int = 15) -> list[list[str]]:
    """The first operators as rows of text, with the columns `HEADERS`."""
    spent: dict[str, float] = defaultdict(float)
    for op in found:
        spent[op.place] += op.self_us
    return [
        [
            op.name,
            op.place,
            f"{op.calls:,}",
            f"{op.self_us / 1000:,.1f}",
            f"{op.self_us / spent[op.place]:.1%}" if spent[op.place] else "–",
            f"{op.total_us / 1000:,.1f}",
        ]
        for op in found[:limit]
    ]


def _threads(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[float, float, str]]]]:
    """The place of each thread of a trace, with its calls in order: start, minus duration, name.

    The longer of two that begin together comes first: it is the caller.
    """
    threads: dict[tuple[Any, Any, str], list[tuple[float, float, str]]] = defaultdict(list)
    for event in events:
        place = _PLACES.get(event.get("cat", ""))
        if event.get("ph") == "X" and place is not None:
            key = (event.get("pid"), event.get("tid"), place)
            threads[key].append((event["ts"], -event["dur"], event["name"]))
    for (_, _, place), calls in threads.items():
        yield place, sorted(calls)


def _own_times(calls: Iterable[tuple[float, float, str]]) -> list[tuple[str, float, float]]:
    """Name, own and total us of the calls of one thread, which are in order of their start."""
    done: list[tuple[str, float, float]] = []
    open_calls: list[list[Any]] = []
    for start, minus_us, name in calls:
        while open_calls and open_calls[-1][0] <= start:
            done.append(tuple(open_calls.pop()[1:]))
        if open_calls:
            open_calls[-1][2] += minus_us
        open_calls.append([start - minus_us, name, -minus_us, -minus_us])
    done.extend(tuple(call[1:]) for call in open_calls)
    return done


def _events(path: Path) -> list[Mapping[str, Any]]:
    import orjson

    try:
        content = path.read_bytes()
        trace = orjson.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        return [event for event in events if isinstance(event, dict)]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise EvidenceError(f"{path}: is not a trace in the Chrome format ({error})") from error
