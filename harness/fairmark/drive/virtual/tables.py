"""From a recorder to the evidence contract. There are no bytes of a wire: ``reads`` is empty."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairmark.drive.virtual.recorder import NEVER, Recorder
from fairmark.evidence.columns import EVENT_KINDS
from fairmark.evidence.decode import output_sha256
from fairmark.evidence.environment import hashed_host
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LivePhase
from fairmark.evidence.seal import plan_columns
from fairmark.evidence.tables import table, write_table

__all__ = ["write_evidence"]

Int64s = npt.NDArray[np.int64]


def write_evidence(
    evidence: Path,
    phases: Sequence[LivePhase],
    epochs_ns: Mapping[str, int],
    recorder: Recorder,
    *,
    repetition: int,
) -> None:
    """Write the tables ``queries``, ``events``, ``reads``, ``outputs``, ``plan``, ``health``, ``telemetry``
    and ``workers.json`` into the folder ``evidence``.

    Args:
        phases: in the order they run.
        epochs_ns: when each phase that began did, from the start of the run. All times in the tables
            count from the epoch of the performance phase, or of the last phase if there is none.
    """
    epoch_ns = epochs_ns.get("performance", list(epochs_ns.values())[-1])
    plan = plan_columns(phases)
    queries = _queries(plan, {n: t - epoch_ns for n, t in epochs_ns.items()}, recorder, epoch_ns)
    queries["repetition"] = np.full(len(queries["seq"]), repetition, dtype=np.int32)
    written = {
        "queries": queries,
        "events": _events(recorder, epoch_ns),
        "outputs": _outputs(recorder),
        "plan": plan,
        "reads": {},
        "health": {},
        "telemetry": {},
    }
    for name, data in written.items():
        write_table(table(name, data), evidence / f"{name}.parquet")
    write_json(evidence / "workers.json", [_worker(epoch_ns)])


def _queries(
    plan: Mapping[str, Any], starts_ns: Mapping[str, int], recorder: Recorder, epoch_ns: int
) -> dict[str, Any]:
    """The planned samples that were issued; ``starts_ns`` are the phases' starts on the tables' time."""
    issued = _stamps(recorder.issued)
    seqs = np.flatnonzero(issued != NEVER)
    phase = [plan["phase"][seq] for seq in seqs.tolist()]
    due = plan["scheduled_ns"][seqs]
    start = np.array([starts_ns[name] for name in phase], dtype=np.int64)

    def of(value: Callable[[int], Any]) -> list[Any]:
        return [value(seq) for seq in seqs.tolist()]

    def relative(stamps: array[int]) -> Any:
        column = _stamps(stamps)[seqs]
        return np.ma.masked_array(column - epoch_ns, column == NEVER)

    usage, counted = recorder.usage, of(recorder.output_tokens)
    inputs = of(lambda seq: usage[seq].input_tokens if seq in usage else None)
    failures = of(recorder.failure.get)
    return {
        "seq": seqs,
        "query": plan["query"][seqs],
        "sample_index": plan["sample_index"][seqs],
        "phase": phase,
        "worker": np.zeros(len(seqs), dtype=np.int32),
        "scheduled_ns": due + start,
        "issued_ns": relative(recorder.issued),
        "sent_ns": relative(recorder.issued),
        "first_token_ns": relative(recorder.first_token),
        "last_token_ns": relative(recorder.last_token),
        "completed_ns": relative(recorder.completed),
        "input_tokens": inputs,
        "input_token_source": [None if n is None else "usage" for n in inputs],
        "output_tokens": [n for n, _ in counted],
        "output_token_source": [source for _, source in counted],
        "cached_tokens": of(lambda seq: usage[seq].cached_tokens if seq in usage else None),
        "attempts": np.ones(len(seqs), dtype=np.int32),
        "finish_reason": of(recorder.finish.get),
        "failure": [f and f.kind for f in failures],
        "failure_detail": [f and (f.detail or None) for f in failures],
        "output_sha256": of(lambda seq: output_sha256(text) if (text := recorder.text.get(seq)) else None),
    }


def _stamps(column: array[int]) -> Int64s:
    return np.array(column, dtype=np.int64)


def _events(recorder: Recorder, epoch_ns: int) -> dict[str, Any]:
    """Grouped by sample, as decoded responses are; within a sample in the order they happened."""
    seqs = np.array(recorder.event_seq, dtype=np.int64)
    order = np.argsort(seqs, kind="stable")
    tokens = np.array(recorder.event_tokens, dtype=np.int32)[order]
    kinds = np.array(recorder.event_kind, dtype=np.int8)[order]
    return {
        "seq": seqs[order],
        "arrival_ns": np.array(recorder.event_ns, dtype=np.int64)[order] - epoch_ns,
        "read": np.array(recorder.event_read, dtype=np.int32)[order],
        "kind": np.array(EVENT_KINDS, dtype=object)[kinds],
        "n_tokens": np.ma.masked_array(tokens, tokens < 0),
    }


def _outputs(recorder: Recorder) -> dict[str, Any]:
    columns = (recorder.text, recorder.reasoning, recorder.token_ids, recorder.data)
    seqs = sorted(set().union(*columns))
    return {
        "seq": np.array(seqs, dtype=np.int64),
        "text": [recorder.text.get(seq, "") for seq in seqs],
        "reasoning": [recorder.reasoning.get(seq, "") for seq in seqs],
        "token_ids": [recorder.token_ids.get(seq) for seq in seqs],
        "data": [recorder.data.get(seq) for seq in seqs],
    }


def _worker(epoch_ns: int) -> dict[str, Any]:
    """The one worker: nothing paces it, and it has no ceiling."""
    return {
        "worker": 0,
        "host": hashed_host(),
        "epoch_ns": epoch_ns,
        "offset_ns": 0,
        "offset_bound_ns": 0,
        "pacer": "virtual",
        "isolation": "in_process",
        "ceiling": None,
    }
