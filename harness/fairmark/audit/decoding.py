"""Do the stored bytes say what the tables say? Every response is decoded again from its raw reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import zstandard

from fairmark.audit.problems import Problems
from fairmark.audit.subject import Subject
from fairmark.evidence.decode import Answer, decode_answer, output_sha256
from fairmark.evidence.store import OUTCOMES
from fairmark.measure.arrow import int64s
from fairmark.wire.dialects import Dialect
from fairmark.wire.http1 import deframe
from fairmark.wire.response import Read

__all__ = ["check_decoding", "check_output_digests"]

_QUERIES: Final = "evidence/queries.parquet"
_EVENTS: Final = "evidence/events.parquet"
_READS: Final = "evidence/reads.parquet"
_OUTPUTS: Final = "evidence/outputs.parquet"

_RERUN: Final = "run the scenario again; the tables do not come from these bytes"

_DRIVER_SAW: Final = frozenset({"connect", "timeout", "stalled", "aborted"})
_WHEN_FAILED: Final[Mapping[str | None, tuple[str, ...]]] = {
    "truncated": ("complete", "eof", "reset"),
    "malformed": ("complete", "eof", "garbled"),
}

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the tables hold for one sample."""

    row: Row
    events: list[tuple[Any, ...]]
    output: Row | None


def check_decoding(subject: Subject, problems: Problems) -> None:
    """Decode every response again and compare it with ``queries``, ``events`` and ``outputs``.

    How a connection ended (closed by the peer, reset) is a fact that the driver saw and the bytes do not
    hold. The audit accepts a row if one of the ways that fit its stored failure explains the whole row.
    """
    if subject.record["requests"] is None:
        problems.warning(
            "audit.no-wire",
            _EVENTS,
            "the run holds no wire bytes: events and answers are the driver's word, not decoded again",
            "drive the system through a server of its own where others must be able to check responses",
        )
        return
    dialect = subject.dialect
    if dialect is None:
        return
    reads = _reads(subject, problems)
    if reads is None:
        return
    stream = subject.record["requests"]["stream"]
    mismatches = dict.fromkeys((_QUERIES, _EVENTS, _OUTPUTS), 0)
    first: dict[str, str] = {}
    for seq, stored in _stored(subject):
        wrong = _mismatch(dialect, reads.get(seq, []), stored, stream=stream)
        if wrong is not None:
            file, what = wrong
            mismatches[file] += 1
            first.setdefault(file, f"seq {seq}: {what}")
    for file, count in mismatches.items():
        if count:
            problems.error(
                "audit.decoding",
                file,
                f"{count} samples differ from their bytes; first {first[file]}",
                _RERUN,
            )
    _check_strays(subject, reads, problems)


def check_output_digests(subject: Subject, problems: Problems) -> None:
    """``output_sha256`` is that of the stored text."""
    outputs = subject.evidence.outputs
    texts = dict(zip(outputs["seq"].to_pylist(), outputs["text"].to_pylist(), strict=True))
    queries = subject.evidence.queries
    pairs = zip(queries["seq"].to_pylist(), queries["output_sha256"].to_pylist(), strict=True)
    for seq, digest in pairs:
        text = texts.get(seq)
        if digest != (output_sha256(text) if text else None):
            problems.error(
                "audit.outputs", _OUTPUTS, f"the text of seq {seq} does not have its output_sha256", _RERUN
            )
            return


def _reads(subject: Subject, problems: Problems) -> dict[int, list[Read]] | None:
    """The reads of every sample, in order; None where table and wire files do not fit each other."""
    table = subject.reads
    names = ("seq", "arrival_ns", "offset", "size", "worker")
    seq, arrival, offset, size, worker = (int64s(table, name) for name in names)
    found: dict[int, list[Read]] = {}
    for number in range(len(subject.evidence.workers)):
        mine = np.flatnonzero(worker == number)
        file = f"evidence/wire/worker-{number}.zst"
        wire = _uncompressed(subject.folder / file)
        ends = np.cumsum(size[mine])
        if wire is None or not np.array_equal(offset[mine], ends - size[mine]):
            problem = "cannot be read" if wire is None else "is not what the table reads says lies in it"
            problems.error("audit.wire", file, problem, _RERUN)
            return None
        if len(wire) != (int(ends[-1]) if len(ends) else 0):
            problems.error(
                "audit.wire", file, f"has {len(wire)} bytes; its reads do not add up to that", _RERUN
            )
            return None
        for s, t, start, length in zip(
            seq[mine].tolist(),
            arrival[mine].tolist(),
            offset[mine].tolist(),
            size[mine].tolist(),
            strict=True,
        ):
            found.setdefault(s, []).append(Read(t, wire[start : start + length]))
    if not np.isin(worker, np.arange(len(subject.evidence.workers))).all():
        problems.error("audit.wire", _READS, "names a worker that workers.json does not have", _RERUN)
        return None
    return found


def _uncompressed(path: Path) -> bytes | None:
    """The whole wire stream of a worker; None if it is missing or damaged."""
    try:
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            return stream.read()
    except (OSError, zstandard.ZstdError):
        return None


def _stored(subject: Subject) -> Iterator[tuple[int, _Stored]]:
    evidence = subject.evidence
    events: dict[int, list[tuple[Any, ...]]] = {}
    names = ("arrival_ns", "read", "kind", "n_tokens")
    table = evidence.all_events
    columns = [table[name].to_pylist() for name in names]
    for seq, *event in zip(table["seq"].to_pylist(), *columns, strict=True):
        events.setdefault(seq, []).append(tuple(event))
    outputs = {row["seq"]: row for row in evidence.outputs.to_pylist()}
    for batch in evidence.queries.to_batches():
        for row in batch.to_pylist():
            yield row["seq"], _Stored(row, events.get(row["seq"], []), outputs.get(row["seq"]))


def _mismatch(
    dialect: Dialect, reads: Sequence[Read], stored: _Stored, *, stream: bool
) -> tuple[str, str] | None:
    """The file and field in which ``stored`` differs from its bytes, or None."""
    if stored.row["failure"] is None and not reads:
        return _QUERIES, "it succeeded without a single read"
    ended = _wrong_end(reads, stored.row)
    if ended is not None:
        return _QUERIES, ended
    failure = stored.row["failure"]
    ways = (failure,) if failure in _DRIVER_SAW else _WHEN_FAILED.get(failure, ("complete", "eof"))
    wrong: tuple[str, str] | None = None
    for way in ways:
        answer = decode_answer(
            dialect, reads, OUTCOMES.index(way), stream=stream, detail=stored.row["failure_detail"]
        )
        difference = _difference(answer, stored)
        if difference is None:
            return None
        wrong = wrong or difference
    return wrong


def _wrong_end(reads: Sequence[Read], row: Row) -> str | None:
    """What is wrong with ``completed_ns``: a response that says where it ends is completed by its last read,
    any other one no earlier than that.
    """
    completed_ns = row["completed_ns"]
    if not reads or completed_ns is None:
        return None
    last_ns = reads[-1].arrival_ns
    if completed_ns < last_ns:
        return f"completed_ns is {completed_ns}, before the last read at {last_ns}"
    if row["failure"] is None and completed_ns > last_ns and deframe(reads, closed=False).complete:
        return f"completed_ns is {completed_ns}; the read that ended the response came at {last_ns}"
    return None


def _difference(answer: Answer, stored: _Stored) -> tuple[str, str] | None:
    for name, value in _facts(answer).items():
        if stored.row[name] != value:
            return _QUERIES, f"{name} is {stored.row[name]!r}, the bytes say {value!r}"
    response = answer.response
    if stored.events != [(e.arrival_ns, e.read, e.kind, e.n_tokens) for e in response.events]:
        return _EVENTS, "its events are not those of the bytes"
    text, reasoning, ids, data = response.text, response.reasoning, response.token_ids, response.data
    held = text or reasoning or ids or data is not None
    expected = (text, reasoning, None if ids is None else list(ids), data) if held else None
    output = stored.output
    found = None if output is None else tuple(output[n] for n in ("text", "reasoning", "token_ids", "data"))
    return None if found == expected else (_OUTPUTS, "its output is not that of the bytes")


def _facts(answer: Answer) -> dict[str, Any]:
    """Columns of ``queries`` that bytes decide."""
    response = answer.response
    facts = {
        "first_byte_ns": answer.first_byte_ns,
        "first_token_ns": answer.first_token_ns,
        "last_token_ns": answer.last_token_ns,
        "input_tokens": response.input_tokens,
        "input_token_source": response.input_token_source,
        "output_tokens": response.output_tokens,
        "output_token_source": response.output_token_source,
        "cached_tokens": response.cached_tokens,
        "finish_reason": response.finish_reason,
        "failure": answer.failure,
        "failure_detail": answer.failure_detail,
        "flags": answer.flags,
        "output_sha256": answer.output_sha256,
    }
    if response.http_status is not None:
        facts["http_status"] = response.http_status
    return facts


def _check_strays(subject: Subject, reads: Mapping[int, Any], problems: Problems) -> None:
    """Reads, events and outputs belong to samples of the queries table."""
    evidence = subject.evidence
    known = int64s(evidence.queries, "seq")
    held = {
        _READS: np.array(list(reads), dtype=np.int64),
        _EVENTS: int64s(evidence.all_events, "seq"),
        _OUTPUTS: int64s(evidence.outputs, "seq"),
    }
    for file, seqs in held.items():
        strays = np.setdiff1d(seqs, known)
        if len(strays):
            problems.error("audit.decoding", file, f"holds seq {int(strays[0])}, which no query has", _RERUN)
