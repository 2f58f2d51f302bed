"""From the live store to the evidence contract: Parquet tables and compressed wire bytes.

Works the same on the store of a run that ended and of one that was killed. Times become relative to the
epoch of the measured phase: performance if it began, else the last phase that did.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from fairmark.evidence.answers import AnswerColumns
from fairmark.evidence.control import Control
from fairmark.evidence.decode import decode_answer
from fairmark.evidence.gauges import gauge_columns
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LivePhase, LiveStore
from fairmark.evidence.recorded import EVENTS
from fairmark.evidence.recorded_answer import recorded_answer
from fairmark.evidence.tables import table, write_table
from fairmark.evidence.worker_log import WorkerLog
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read

__all__ = ["Sealed", "measured_epoch_ns", "plan_columns", "seal"]

Int64s = npt.NDArray[np.int64]

_WIRE_LEVEL: Final = 3
_VIOLATIONS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was found.

    Attributes:
        issued, completed: samples per phase; completed ones are successes.
        never_ended: samples that were in flight when their worker died.
        unreadable_looks: looks at the system's own gauges that cannot be read back.
    """

    issued: Mapping[str, int]
    completed: Mapping[str, int]
    never_ended: int
    unreadable_looks: int


def measured_epoch_ns(store: LiveStore, control: Control) -> int:
    """The epoch that all times in the tables count from, on CLOCK_MONOTONIC; 0 if nothing began."""
    begun = [(p.name, control.epoch_ns(n)) for n, p in enumerate(store.phases) if control.epoch_ns(n)]
    measured = [epoch_ns for name, epoch_ns in begun if name == "performance"]
    return measured[0] if measured else begun[-1][1] if begun else 0


def seal(store: LiveStore, evidence: Path) -> Sealed:
    """Write the tables ``queries``, ``events``, ``reads``, ``outputs``, ``plan``, ``health``, ``telemetry``,
    the wire bytes and ``workers.json`` into the folder ``evidence``.
    """
    control = store.control()
    epoch_ns = measured_epoch_ns(store, control)
    logs = [WorkerLog(store.log_stem(worker)) for worker in range(store.workers)]
    stamps = _issued(store)
    recorded = store.dialect == EVENTS
    answers = (_recorded if recorded else _decode)(store, stamps, logs, epoch_ns)
    telemetry, unreadable_looks = gauge_columns(store.folder, epoch_ns)
    tables = {
        "queries": _queries(store, control, stamps, answers, epoch_ns),
        "events": answers.events(),
        "outputs": answers.outputs,
        "plan": plan_columns(store.phases),
        "health": _health(logs, epoch_ns),
        "telemetry": telemetry,
        "reads": {} if recorded else _wire(logs, evidence / "wire", epoch_ns),
    }
    for name, data in tables.items():
        write_table(table(name, data), evidence / f"{name}.parquet")
    write_json(
        evidence / "workers.json", [_worker(store, w, logs[w], epoch_ns) for w in range(store.workers)]
    )
    for log in logs:
        log.close()
    return _summary(store, stamps, answers, unreadable_looks)


def _issued(store: LiveStore) -> dict[str, Int64s]:
    """The stamps of all issued samples, in seq order, with what the plan says of each."""
    phases = store.phases
    stamps = store.columns().stamps._asdict()
    columns = {name: np.array(view, dtype=np.int64) for name, view in stamps.items()}
    columns["seq"] = np.arange(store.samples, dtype=np.int64)
    columns["phase"] = np.repeat(np.arange(len(phases)), [p.samples for p in phases])
    columns["query"] = _joined(p.query_of + q for p, q in zip(phases, store.first_query, strict=True))
    columns["sample_index"] = _joined(p.sample_index for p in phases)
    columns["worker"] = _joined(p.worker_of(store.workers) for p in phases)
    if store.dialect == EVENTS:
        # Where nothing lies between the decision to send and the call, one stamp is taken.
        columns["sent"] = np.where(columns["sent"] == 0, columns["issued"], columns["sent"])
    columns["due"] = _joined(_due(p.due_ns, p.query_of) for p in phases)
    issued = columns["issued"] != 0
    return {name: values[issued] for name, values in columns.items()}


def _joined(parts: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _due(due_ns: Int64s | None, query_of: Int64s) -> Int64s:
    """When each sample is due, from its phase's epoch; -1 where it has no time of its own."""
    return np.full(len(query_of), -1, np.int64) if due_ns is None else due_ns[query_of]


def _decode(
    store: LiveStore, stamps: Mapping[str, Int64s], logs: Sequence[WorkerLog], epoch_ns: int
) -> AnswerColumns:
    speech = dialect(store.dialect, store.template)
    answers = AnswerColumns()
    rows = (stamps[name].tolist() for name in ("seq", "worker", "outcome"))
    for seq, worker, outcome in zip(*rows, strict=True):
        log = logs[worker]
        reads = [Read(t_ns - epoch_ns, data) for t_ns, data in log.reads_of(seq)]
        detail = log.details.get(seq)
        answer = decode_answer(speech, reads, outcome, stream=store.stream, detail=detail)
        answers.add(seq, answer, answer.response.data)
    return answers


def _recorded(
    store: LiveStore, stamps: Mapping[str, Int64s], logs: Sequence[WorkerLog], epoch_ns: int
) -> AnswerColumns:
    answers = AnswerColumns()
    rows = (stamps[name].tolist() for name in ("seq", "worker", "outcome", "completed", "status"))
    for seq, worker, outcome, completed, reason in zip(*rows, strict=True):
        log = logs[worker]
        answer, data = recorded_answer(
            [(kind, t_ns - epoch_ns, payload) for kind, t_ns, payload in log.events_of(seq)],
            outcome=outcome,
            completed_ns=completed - epoch_ns,
            finish_reason=log.reasons.get(reason),
            detail=log.details.get(seq),
            of_tokens=store.of_tokens,
        )
        answers.add(seq, answer, data)
    return answers


def _queries(
    store: LiveStore, control: Control, stamps: Mapping[str, Int64s], answers: AnswerColumns, epoch_ns: int
) -> dict[str, Any]:
    epochs = np.array([control.epoch_ns(n) - epoch_ns for n in range(len(store.phases))], dtype=np.int64)
    due, count = stamps["due"], len(stamps["seq"])
    used = stamps["connection"] - 1
    statuses = np.zeros_like(stamps["status"]) if store.dialect == EVENTS else stamps["status"]
    seen = zip(answers.queries["http_status"], statuses.tolist(), strict=True)
    return {
        **answers.queries,
        **{name: stamps[name] for name in ("seq", "query", "sample_index", "worker")},
        **{f"{name}_ns": _relative(stamps[name], epoch_ns) for name in ("issued", "sent", "completed")},
        "phase": [store.phases[n].name for n in stamps["phase"].tolist()],
        "scheduled_ns": np.ma.masked_array(due + epochs[stamps["phase"]], due < 0),
        "repetition": np.full(count, store.repetition, dtype=np.int32),
        "attempts": np.ones(count, dtype=np.int32),
        "connection_new": np.ma.masked_array(used % 2 == 1, np.full(count, store.dialect == EVENTS)),
        "endpoint": np.ma.masked_array((used // 2).astype(np.int32), used < 0),
        "http_status": [decoded or stamped or None for decoded, stamped in seen],
    }


def _relative(stamps: Int64s, epoch_ns: int) -> Any:
    return np.ma.masked_array(stamps - epoch_ns, stamps == 0)


def plan_columns(phases: Sequence[LivePhase]) -> dict[str, Any]:
    """The table ``plan``: every planned sample of ``phases``, which are in the order they run.

    ``scheduled_ns`` counts from the start of its phase.
    """
    first_query = np.cumsum([0, *(p.queries for p in phases)])
    due = _joined(_due(p.due_ns, p.query_of) for p in phases)
    return {
        "phase": [p.name for p in phases for _ in range(p.samples)],
        "seq": np.arange(len(due), dtype=np.int64),
        "query": _joined(p.query_of + q for p, q in zip(phases, first_query, strict=False)),
        "sample_index": _joined(p.sample_index for p in phases),
        "scheduled_ns": np.ma.masked_array(due, due < 0),
    }


def _health(logs: Sequence[WorkerLog], epoch_ns: int) -> dict[str, Any]:
    rows = [
        (w, t_ns - epoch_ns, name, value) for w, log in enumerate(logs) for t_ns, name, value in log.health
    ]
    names = ("worker", "t_ns", "name", "value")
    return {name: [row[position] for row in rows] for position, name in enumerate(names)}


def _wire(logs: Sequence[WorkerLog], folder: Path, epoch_ns: int) -> dict[str, Any]:
    """Write each worker's bytes into one compressed stream; the table ``reads`` says where each read is."""
    folder.mkdir(exist_ok=True)
    for worker, log in enumerate(logs):
        compressor = zstandard.ZstdCompressor(level=_WIRE_LEVEL)
        with (folder / f"worker-{worker}.zst").open("wb") as raw, compressor.stream_writer(raw) as stream:
            for data in log.stored():
                stream.write(data)
    return {
        "seq": _joined(log.seq for log in logs),
        "arrival_ns": _joined(log.arrival_ns - epoch_ns for log in logs),
        "offset": _joined(np.cumsum(log.size) - log.size for log in logs),
        "size": _joined(log.size for log in logs).astype(np.int32),
        "worker": np.repeat(np.arange(len(logs), dtype=np.int32), [len(log.seq) for log in logs]),
    }


def _worker(store: LiveStore, worker: int, log: WorkerLog, epoch_ns: int) -> dict[str, Any]:
    """Clocks of one host agree, so that offset and bound are 0."""
    return {
        "worker": worker,
        "epoch_ns": epoch_ns,
        "offset_ns": 0,
        "offset_bound_ns": 0,
        "ceiling": store.ceilings[worker] if store.ceilings else None,
        **store.common,
        **store.worker_facts(worker),
        **({"violations": _violations(log)} if store.dialect == EVENTS else {}),
    }


def _violations(log: WorkerLog) -> dict[str, Any]:
    """How often the plugin broke its contract, and the first times it did."""
    kinds = Counter(kind for _, kind, _, _ in log.violations)
    first = [
        {"kind": kind, "seq": None if seq < 0 else seq, "detail": remark}
        for _, kind, seq, remark in log.violations[:_VIOLATIONS_SHOWN]
    ]
    return {"count": sum(kinds.values()), "by_kind": dict(sorted(kinds.items())), "first": first}


def _summary(
    store: LiveStore, stamps: Mapping[str, Int64s], answers: AnswerColumns, unreadable_looks: int
) -> Sealed:
    ok = np.array([failure is None for failure in answers.queries["failure"]], dtype=np.bool_)
    of = {p.name: stamps["phase"] == n for n, p in enumerate(store.phases)}
    return Sealed(
        issued={name: int(mine.sum()) for name, mine in of.items()},
        completed={name: int((mine & ok).sum()) for name, mine in of.items()},
        never_ended=int((stamps["outcome"] == 0).sum()),
        unreadable_looks=unreadable_looks,
    )
