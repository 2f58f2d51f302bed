"""From the live store to the evidence contract: Parquet tables and compressed wire bytes.

Works the same on the store of a run that ended and of one that was killed. Times become relative to the
epoch of the measured phase: performance if it began, else the last phase that did.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import zstandard

from fairmark.evidence.columns import EVENT_KINDS
from fairmark.evidence.control import Control
from fairmark.evidence.decode import Answer, decode_answer
from fairmark.evidence.live import LiveStore
from fairmark.evidence.store import DETAIL, HEALTH, HEALTH_NAMES, WIRE, LogReader, Record, Stamps
from fairmark.evidence.tables import table, write_table
from fairmark.wire.dialects import dialect
from fairmark.wire.response import Read

__all__ = ["Sealed", "measured_epoch_ns", "seal"]

Int64s = npt.NDArray[np.int64]

_COOKIE: Final = re.compile(rb"(?i)(?<=\nset-cookie:)[^\r\n]+")
_WIRE_LEVEL: Final = 3


@dataclass(frozen=True, slots=True)
class Sealed:
    """What was found.

    Attributes:
        issued, completed: samples per phase; completed ones are successes.
        never_ended: samples that were in flight when their worker died.
    """

    issued: Mapping[str, int]
    completed: Mapping[str, int]
    never_ended: int


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
    logs = [_Log(LogReader(store.log_stem(w)), w) for w in range(store.workers)]
    stamps = _issued(store)
    answers = _Answers()
    for seq, outcome in zip(stamps["seq"].tolist(), stamps["outcome"].tolist(), strict=True):
        log = logs[int(stamps["worker"][len(answers.failure)])]
        reads = [Read(t - epoch_ns, data) for t, data in log.reads(seq)]
        answer = decode_answer(
            dialect(store.dialect), reads, outcome, stream=store.stream, detail=log.details.get(seq)
        )
        answers.add(seq, answer)
    queries = _queries(store, control, stamps, answers, epoch_ns)
    written = {
        "queries": queries,
        "events": answers.events(),
        "outputs": answers.outputs(),
        "plan": _plan(store),
        "health": _health(logs, epoch_ns),
        "telemetry": {},
        "reads": _wire(logs, evidence / "wire", epoch_ns),
    }
    for name, data in written.items():
        write_table(table(name, data), evidence / f"{name}.parquet")
    workers = [_worker(store, w, epoch_ns) for w in range(store.workers)]
    (evidence / "workers.json").write_text(json.dumps(workers, indent=1) + "\n", encoding="utf-8")
    for log in logs:
        log.reader.close()
    return _summary(store, stamps, answers)


class _Log:
    """A worker's log, its reads grouped by sample."""

    def __init__(self, reader: LogReader, worker: int) -> None:
        self.reader = reader
        self.worker = worker
        self.wire: list[Record] = []
        self.health: list[Record] = []
        self.details: dict[int, str] = {}
        for record in reader:
            if record.kind == WIRE:
                self.wire.append(record)
            elif record.kind == HEALTH:
                self.health.append(record)
            elif record.kind == DETAIL:
                self.details[record.seq] = reader.data(record).decode("utf-8", "replace")
        self._of: dict[int, list[int]] = {}
        for number, record in enumerate(self.wire):
            self._of.setdefault(record.seq, []).append(number)
        self._masked: dict[int, bytes] = {}

    def reads(self, seq: int) -> Iterator[tuple[int, bytes]]:
        """The reads of sample ``seq``, as they are going to be stored."""
        numbers = self._of.get(seq, [])
        data = [self.reader.data(self.wire[n]) for n in numbers]
        masked = _without_cookies(data)
        if masked is not data:
            self._masked.update(zip(numbers, masked, strict=True))
        for number, stored in zip(numbers, masked, strict=True):
            yield self.wire[number].t_ns, stored

    def stored(self) -> Iterator[tuple[Record, bytes]]:
        """All reads in the order they arrived, as they are going to be stored."""
        for number, record in enumerate(self.wire):
            masked = self._masked.get(number)
            yield record, self.reader.data(record) if masked is None else masked


def _without_cookies(reads: list[bytes]) -> list[bytes]:
    """Cookies are secrets: their values become as many ``x``, so that every offset stays what it was."""
    if not any(b"ookie" in data or b"OOKIE" in data for data in reads):
        return reads
    head, separator, body = b"".join(reads).partition(b"\r\n\r\n")
    whole = _COOKIE.sub(lambda value: b"x" * len(value[0]), head) + separator + body
    ends = np.cumsum([len(data) for data in reads]).tolist()
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _issued(store: LiveStore) -> dict[str, Int64s]:
    """The stamps of all issued samples, in seq order, with what the plan says of each."""
    stamps: Stamps = store.columns().stamps
    columns = {name: np.array(view, dtype=np.int64) for name, view in stamps._asdict().items()}
    phases = store.phases
    columns["seq"] = np.arange(store.samples, dtype=np.int64)
    columns["phase"] = np.repeat(np.arange(len(phases)), [p.samples for p in phases])
    columns["query"] = _joined(p.query_of + q for p, q in zip(phases, store.first_query, strict=True))
    columns["sample_index"] = _joined(p.sample_index for p in phases)
    columns["worker"] = _joined(p.worker_of(store.workers) for p in phases)
    columns["due"] = _joined(_due(p.due_ns, p.query_of) for p in phases)
    issued = columns["issued"] != 0
    return {name: values[issued] for name, values in columns.items()}


def _joined(parts: Iterable[Int64s]) -> Int64s:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _due(due_ns: Int64s | None, query_of: Int64s) -> Int64s:
    return np.full(len(query_of), -1, np.int64) if due_ns is None else due_ns[query_of]


class _Answers:
    """Columns made from decoded responses, in typed arrays where there are many values."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.seqs: list[int] = []
        self.failure: list[str | None] = []
        self._event_seq, self._event_ns, self._event_read = array("q"), array("q"), array("i")
        self._event_kind, self._event_tokens = array("b"), array("i")

    def add(self, seq: int, answer: Answer) -> None:
        """Add the answer of the next sample."""
        self.seqs.append(seq)
        self.failure.append(answer.failure)
        for event in answer.response.events:
            self._event_seq.append(seq)
            self._event_ns.append(event.arrival_ns)
            self._event_read.append(event.read)
            self._event_kind.append(EVENT_KINDS.index(event.kind))
            self._event_tokens.append(-1 if event.n_tokens is None else event.n_tokens)
        # Events are kept in the arrays; holding them as objects too would cost ten times as much.
        self.answers.append(_without_events(answer))

    def events(self) -> dict[str, Any]:
        """The table ``events``."""
        tokens = np.array(self._event_tokens, dtype=np.int32)
        return {
            "seq": np.array(self._event_seq, dtype=np.int64),
            "arrival_ns": np.array(self._event_ns, dtype=np.int64),
            "read": np.array(self._event_read, dtype=np.int32),
            "kind": np.array(EVENT_KINDS, dtype=object)[np.array(self._event_kind, dtype=np.int8)],
            "n_tokens": np.ma.masked_array(tokens, tokens < 0),
        }

    def outputs(self) -> dict[str, Any]:
        """The table ``outputs``: samples that any output arrived for."""
        rows = [
            (seq, a.response)
            for seq, a in zip(self.seqs, self.answers, strict=True)
            if a.response.text or a.response.reasoning or a.response.token_ids
        ]
        return {
            "seq": [seq for seq, _ in rows],
            "text": [r.text for _, r in rows],
            "reasoning": [r.reasoning for _, r in rows],
            "token_ids": [r.token_ids for _, r in rows],
        }


def _without_events(answer: Answer) -> Answer:
    return replace(answer, response=replace(answer.response, events=()))


def _queries(
    store: LiveStore, control: Control, stamps: Mapping[str, Int64s], answers: _Answers, epoch_ns: int
) -> dict[str, Any]:
    epochs = np.array([control.epoch_ns(n) - epoch_ns for n in range(len(store.phases))], dtype=np.int64)
    due = stamps["due"]
    responses = [a.response for a in answers.answers]
    status = [r.http_status or s or None for r, s in zip(responses, stamps["status"].tolist(), strict=True)]
    return {
        **{name: stamps[name] for name in ("seq", "query", "sample_index", "worker")},
        "repetition": np.full(len(due), store.repetition, dtype=np.int32),
        "phase": [store.phases[n].name for n in stamps["phase"].tolist()],
        "scheduled_ns": np.ma.masked_array(due + epochs[stamps["phase"]], due < 0),
        **{f"{name}_ns": _relative(stamps[name], epoch_ns) for name in ("issued", "sent", "completed")},
        "first_byte_ns": [a.first_byte_ns for a in answers.answers],
        "first_token_ns": [a.first_token_ns for a in answers.answers],
        "last_token_ns": [a.last_token_ns for a in answers.answers],
        "input_tokens": [r.input_tokens for r in responses],
        "input_token_source": [r.input_token_source for r in responses],
        "output_tokens": [r.output_tokens for r in responses],
        "output_token_source": [r.output_token_source for r in responses],
        "cached_tokens": [r.cached_tokens for r in responses],
        "attempts": np.ones(len(due), dtype=np.int32),
        "connection_new": stamps["connection"] == 2,
        "finish_reason": [r.finish_reason for r in responses],
        "failure": answers.failure,
        "failure_detail": [a.failure_detail for a in answers.answers],
        "http_status": status,
        "output_sha256": [a.output_sha256 for a in answers.answers],
    }


def _relative(stamps: Int64s, epoch_ns: int) -> Any:
    return np.ma.masked_array(stamps - epoch_ns, stamps == 0)


def _plan(store: LiveStore) -> dict[str, Any]:
    phases = store.phases
    due = _joined(_due(p.due_ns, p.query_of) for p in phases)
    return {
        "phase": [p.name for p in phases for _ in range(p.samples)],
        "seq": np.arange(store.samples, dtype=np.int64),
        "query": _joined(p.query_of + q for p, q in zip(phases, store.first_query, strict=True)),
        "sample_index": _joined(p.sample_index for p in phases),
        "scheduled_ns": np.ma.masked_array(due, due < 0),
    }


def _health(logs: Sequence[_Log], epoch_ns: int) -> dict[str, Any]:
    rows = [
        (log.worker, r.t_ns - epoch_ns, HEALTH_NAMES[r.seq], log.reader.value(r))
        for log in logs
        for r in log.health
    ]
    return (
        dict(zip(("worker", "t_ns", "name", "value"), map(list, zip(*rows, strict=True)), strict=True))
        if rows
        else {}
    )


@dataclass(slots=True)
class _Reads:
    seq: array[int] = field(default_factory=lambda: array("q"))
    arrival_ns: array[int] = field(default_factory=lambda: array("q"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("i"))
    worker: array[int] = field(default_factory=lambda: array("i"))


def _wire(logs: Sequence[_Log], folder: Path, epoch_ns: int) -> dict[str, Any]:
    """Write each worker's bytes into one compressed stream; the table ``reads`` says where each read is."""
    folder.mkdir(exist_ok=True)
    reads = _Reads()
    for log in logs:
        offset = 0
        compressor = zstandard.ZstdCompressor(level=_WIRE_LEVEL)
        with (folder / f"worker-{log.worker}.zst").open("wb") as raw, compressor.stream_writer(raw) as stream:
            for record, data in log.stored():
                stream.write(data)
                reads.seq.append(record.seq)
                reads.arrival_ns.append(record.t_ns - epoch_ns)
                reads.offset.append(offset)
                reads.size.append(record.size)
                reads.worker.append(log.worker)
                offset += record.size
    return {
        "seq": np.array(reads.seq, dtype=np.int64),
        "arrival_ns": np.array(reads.arrival_ns, dtype=np.int64),
        "offset": np.array(reads.offset, dtype=np.int64),
        "size": np.array(reads.size, dtype=np.int32),
        "worker": np.array(reads.worker, dtype=np.int32),
    }


def _worker(store: LiveStore, worker: int, epoch_ns: int) -> dict[str, Any]:
    """Clocks of one host agree, so that offset and bound are 0."""
    return {
        "worker": worker,
        "epoch_ns": epoch_ns,
        "offset_ns": 0,
        "offset_bound_ns": 0,
        "ceiling": store.ceilings[worker] if store.ceilings else None,
        **store.common,
        **store.worker_facts(worker),
    }


def _summary(store: LiveStore, stamps: Mapping[str, Int64s], answers: _Answers) -> Sealed:
    ok = np.array([f is None for f in answers.failure], dtype=np.bool_)
    of = {p.name: stamps["phase"] == n for n, p in enumerate(store.phases)}
    return Sealed(
        issued={name: int(mine.sum()) for name, mine in of.items()},
        completed={name: int((mine & ok).sum()) for name, mine in of.items()},
        never_ended=int((stamps["outcome"] == 0).sum()),
    )
