"""Many samples in one step: issue a run of them, or end a run, with a handful of vector operations.

A run is samples whose seqs follow one another. Its states are looked at first, and exchanged whole if all are
in flight and still what they were: a slice compared and a slice written with no call in between, so that each
of its samples ends once whatever other threads report. A run of which any sample is not in flight, or has
just changed, is taken one by one, which names every breach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from time import monotonic_ns
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fairmark.drive.inprocess.states import BEGUN, ENDED, ISSUED
from fairmark.evidence.recorded import ENDINGS, ENDS, MOST_TOKENS, encode_endings
from fairmark.evidence.store import Stamps
from fairmark.sut.api import Done, Usage

__all__ = ["Runs", "make_runs"]

Int64s = npt.NDArray[np.int64]

_BLOCK: Final = 65_536
"""Samples in one step: enough to be quick, few enough for one record of the log."""

_COMPLETE: Final = ENDS.index("complete")
_ABORTED: Final = ENDS.index("aborted")
_ISSUED: Final = bytes([ISSUED]) * _BLOCK
_ENDED: Final = bytes([ENDED]) * _BLOCK
_REASON: Final = attrgetter("finish_reason")
_CARRIED: Final = tuple(attrgetter(name) for name in ("usage", "token_ids", "data"))


class SingleEnds(Protocol):
    """What is used of `fairmark.drive.inprocess.sink.EventSink`."""

    state: bytearray
    stamps: Stamps
    lost: bool
    finished: Callable[[int], None] | None
    append: Callable[[int, int, int, bytes], None]
    done: Callable[[int, Done], None]
    event: Callable[[int, Any], None]
    number_of: Callable[[str], int]
    violate: Callable[..., None]


class Runs(NamedTuple):
    """The operations, as closures over the columns of a sink.

    Attributes:
        issue: (seqs, t_ns).
        done_all: take what a batch came back as, one answer per seq; whether that ended all of them at once.
        done_many: see `fairmark.sut.api.Sink`.
    """

    issue: Callable[[range, int], None]
    done_all: Callable[[Sequence[int], Sequence[Any]], bool]
    done_many: Callable[..., None]


def make_runs(sink: SingleEnds) -> Runs:
    """Build them."""
    state = sink.state
    issued, completed, outcome, status = (
        np.frombuffer(column, dtype=np.int64)
        for column in (sink.stamps.issued, sink.stamps.completed, sink.stamps.outcome, sink.stamps.status)
    )

    def issue(seqs: range, t_ns: int) -> None:
        for start in range(seqs.start, seqs.stop, _BLOCK):
            end = min(start + _BLOCK, seqs.stop)
            issued[start:end] = t_ns
            state[start:end] = _ISSUED[: end - start]

    def end_run(first: int, end: int, t_ns: int, reason: int, counts: bytes) -> bool:
        """End the samples ``first`` to ``end`` if all of them are in flight, else none."""
        count, ended = end - first, _ENDED[: end - first]
        if first < 0 or end > len(state):
            return False
        before = state[first:end]
        if before.count(ISSUED) + before.count(BEGUN) < count:
            return False
        # No call from here to the exchange: another thread may run only where there is one.
        if state[first:end] != before:
            return False
        state[first:end] = ended
        if counts:
            sink.append(ENDINGS, first, t_ns, counts)
        completed[first:end] = t_ns
        status[first:end] = reason
        outcome[first:end] = _ABORTED if sink.lost else _COMPLETE
        finished = sink.finished
        if finished is not None:
            for seq in range(first, end):
                finished(seq)
        return True

    def done_all(seqs: Sequence[int], answers: Sequence[Any]) -> bool:
        t_ns = monotonic_ns()
        count = len(seqs)
        reason = _plain_reason(answers) if len(answers) == count <= _BLOCK else None
        is_run = seqs[-1] - seqs[0] + 1 == count
        if is_run and reason and end_run(seqs[0], seqs[0] + count, t_ns, sink.number_of(reason), b""):
            return True
        for seq, answer in zip(seqs, answers, strict=False):
            sink.event(seq, answer)
        for extra in answers[count:]:
            remark = f"{type(extra).__name__} beyond the batch of {count}"
            sink.violate("unknown_seq", None, t_ns, remark)
        return False

    def done_many(
        seqs: npt.ArrayLike,
        output_tokens: npt.ArrayLike | None = None,
        input_tokens: npt.ArrayLike | None = None,
        finish_reason: str = "stop",
    ) -> None:
        t_ns = monotonic_ns()
        try:
            numbers = _row(seqs, "seqs")
            tokens = [_token_counts(given, len(numbers)) for given in (input_tokens, output_tokens)]
            reason = sink.number_of(finish_reason)
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            sink.violate("wrong_type", None, t_ns, f"done_many: {error}")
            return
        for start in range(0, len(numbers), _BLOCK):
            block = slice(start, start + _BLOCK)
            inputs, outputs = (None if column is None else column[block] for column in tokens)
            for run, ins, outs in _runs(numbers[block], inputs, outputs):
                end_together(run, ins, outs, t_ns, reason, finish_reason)

    def end_together(
        run: Int64s, inputs: Int64s | None, outputs: Int64s | None, t_ns: int, reason: int, name: str
    ) -> None:
        first = int(run[0])
        counts = b"" if inputs is None and outputs is None else encode_endings(inputs, outputs)
        if not end_run(first, first + len(run), t_ns, reason, counts):
            for position, seq in enumerate(run.tolist()):
                ins, outs = (None if c is None else int(c[position]) for c in (inputs, outputs))
                sink.done(seq, Done(name, Usage(ins, outs) if counts else None))

    return Runs(issue, done_all, done_many)


def _plain_reason(answers: Sequence[Any]) -> str | None:
    """The finish reason of ``answers`` if they are all `Done`, for one reason, and carry nothing else."""
    if set(map(type, answers)) != {Done}:
        return None
    reasons = list(map(_REASON, answers))
    if type(reasons[0]) is not str or reasons.count(reasons[0]) < len(answers):
        return None
    bare = all(list(map(carried, answers)).count(None) == len(answers) for carried in _CARRIED)
    return reasons[0] if bare else None


def _row(given: npt.ArrayLike, what: str) -> Int64s:
    """An array of integers.

    Raises:
        TypeError: it is something else.
    """
    row = np.asarray(given)
    if row.shape == (0,):
        return np.empty(0, dtype=np.int64)
    if row.ndim != 1 or row.dtype.kind not in "iu":
        raise TypeError(f"{what} are not a row of integers but {row.dtype} in {row.ndim} dimensions")
    return row.astype(np.int64, copy=False)


def _token_counts(given: npt.ArrayLike | None, samples: int) -> Int64s | None:
    """Token counts, one per sample.

    Raises:
        TypeError, ValueError: they are something else.
    """
    if given is None:
        return None
    counts = _row(given, "token counts")
    if len(counts) != samples or counts.min(initial=0) < 0 or counts.max(initial=0) > MOST_TOKENS:
        raise ValueError(f"{len(counts)} token counts for {samples} samples, or one out of range")
    return counts


def _runs(
    seqs: Int64s, inputs: Int64s | None, outputs: Int64s | None
) -> Iterator[tuple[Int64s, Int64s | None, Int64s | None]]:
    """Cut ``seqs``, put in order, and the counts beside them where a seq does not follow the one before."""
    if (np.diff(seqs) < 0).any():
        order = np.argsort(seqs, kind="stable")
        seqs = seqs[order]
        inputs = None if inputs is None else inputs[order]
        outputs = None if outputs is None else outputs[order]
    cuts = (np.flatnonzero(np.diff(seqs) != 1) + 1).tolist()
    for start, end in pairwise([0, *cuts, len(seqs)]):
        cut = slice(start, end)
        yield (
            seqs[cut],
            None if inputs is None else inputs[cut],
            None if outputs is None else outputs[cut],
        )
