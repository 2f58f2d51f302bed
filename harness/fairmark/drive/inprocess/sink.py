"""The sink: where events of a system become stamps. It enforces that every query ends exactly once.

Everything here is a closure over mapped columns. The stamp comes first. Then the query's state is tested and
set with no call in between, which no other thread can interrupt as long as there is an interpreter lock.
The first end of a query stands; whatever comes after it is recorded as a violation and changes nothing. What
the driver itself gave up on may still be reported: that is dropped without a word. Once a record could not be
kept, every end is that of an aborted query: its events may be incomplete.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from time import monotonic_ns
from typing import Any, Final

from fairmark.drive.inprocess.runs import make_runs
from fairmark.drive.inprocess.states import BEGUN, ENDED, GIVEN_UP, ISSUED, PLANNED
from fairmark.errors import EvidenceError
from fairmark.evidence.columns import FAILURES
from fairmark.evidence.recorded import (
    CHUNK,
    ENDING,
    ENDS,
    REASON,
    VIOLATION,
    VIOLATIONS,
    encode_chunk,
    encode_ending,
)
from fairmark.evidence.store import DETAIL, DiskFullError, LogWriter, Stamps
from fairmark.sut.api import Chunk, Done, Failed

__all__ = ["EventSink", "SharedLog"]

_COMPLETE: Final = ENDS.index("complete")
_ABORTED: Final = ENDS.index("aborted")
_MAX_DETAIL: Final = 500
_NOT_THE_API: Final = (
    AttributeError,
    KeyError,
    OverflowError,
    TypeError,
    ValueError,
    struct.error,
)
"""What encoding raises for a field that is not what the plugin API says."""


class SharedLog(LogWriter):
    """A worker's log that several threads append to."""

    __slots__ = ("_lock",)

    def __init__(self, stem: Any) -> None:
        super().__init__(stem)
        self._lock = Lock()

    def append(self, kind: int, seq: int, t_ns: int, data: bytes) -> None:
        """Append a record, one thread at a time."""
        with self._lock:
            super().append(kind, seq, t_ns, data)


class EventSink:
    """What a `CallbackSUT` reports to, and the driver for all other shapes.

    Args:
        crashed: called with an error after which nothing can be recorded any more.

    Attributes:
        state: one byte per planned sample, `PLANNED` to `GIVEN_UP`.
        lost: whether a record could not be kept.
        finished: called with the seq after a query has ended, from the thread that ended it; None while
            nobody waits for it.
        chunk, done, failed, done_many: see `fairmark.sut.api.Sink`.
        done_all: take the list that a batch came back as.
        issue_run: issue a run of seqs at one time.
        consume: take what a generator yields.
    """

    __slots__ = (
        "append",
        "chunk",
        "consume",
        "done",
        "done_all",
        "done_many",
        "event",
        "failed",
        "finished",
        "give_up",
        "issue",
        "issue_run",
        "log",
        "lost",
        "no_end",
        "number_of",
        "raised",
        "stamps",
        "state",
        "violate",
    )

    append: Callable[[int, int, int, bytes], None]
    chunk: Callable[[int, Chunk], None]
    consume: Callable[[int, Iterable[Any]], None]
    done: Callable[[int, Done], None]
    done_all: Callable[[Sequence[int], Sequence[Any]], bool]
    done_many: Callable[..., None]
    failed: Callable[[int, Failed], None]
    event: Callable[[int, Any], None]
    give_up: Callable[[int, int, str], bool]
    issue: Callable[[int, int], None]
    issue_run: Callable[[range, int], None]
    no_end: Callable[[int], None]
    number_of: Callable[[str], int]
    raised: Callable[[int, BaseException], None]
    violate: Callable[..., None]

    def __init__(
        self, stamps: Stamps, log: SharedLog, samples: int, crashed: Callable[[BaseException], None]
    ) -> None:
        self.state = bytearray(samples)
        self.stamps = stamps
        self.log = log
        self.lost = False
        self.finished: Callable[[int], None] | None = None
        _make(self, crashed)
        self.issue_run, self.done_all, self.done_many = make_runs(self)


def _make(sink: EventSink, crashed: Callable[[BaseException], None]) -> None:
    """Build the closures of ``sink``."""
    clock, state, log_append = monotonic_ns, sink.state, sink.log.append
    issued, sent, completed, outcome, status, _ = sink.stamps
    reasons: dict[str, int] = {}
    naming = Lock()

    def append(kind: int, seq: int, t_ns: int, data: bytes) -> None:
        try:
            log_append(kind, seq, t_ns, data)
        except (DiskFullError, OSError) as error:
            sink.lost = True
            crashed(error)

    def violate(kind: str, seq: object, t_ns: int, remark: str = "") -> None:
        known = isinstance(seq, int) and 0 <= seq < len(state)
        number = seq if isinstance(seq, int) and known else -1
        text = remark if known or seq is None else f"{remark} of {seq!r}"
        append(VIOLATION, number, t_ns, bytes([VIOLATIONS.index(kind)]) + _short(text))

    def issue(seq: int, t_ns: int) -> None:
        issued[seq] = sent[seq] = t_ns
        state[seq] = ISSUED

    def refuse(seq: Any, now: int | None, t_ns: int, what: str, late: str) -> None:
        """Report an event that the state of its query does not allow."""
        if now == GIVEN_UP:
            return
        if now is None or seq < 0:
            violate("unknown_seq", seq, t_ns, what)
        elif now == PLANNED:
            violate("not_issued", seq, t_ns, what)
        else:
            violate(late, seq, t_ns, what)

    def end(seq: int, t_ns: int, number: int) -> None:
        """Write the end of a query whose state says that it has ended; the outcome commits the rest."""
        completed[seq] = t_ns
        outcome[seq] = _ABORTED if sink.lost else number
        finished = sink.finished
        if finished is not None:
            finished(seq)

    def fail(seq: int, t_ns: int, kind: str, detail: str) -> None:
        if detail:
            append(DETAIL, seq, t_ns, _short(detail))
        end(seq, t_ns, ENDS.index(kind))

    def number_of(reason: str) -> int:
        with naming:
            if reason not in reasons:
                append(REASON, len(reasons) + 1, clock(), reason.encode())
                reasons[reason] = len(reasons) + 1
            return reasons[reason]

    def done(seq: int, event: Done) -> None:
        t_ns = clock()
        try:
            now = state[seq]
        except (IndexError, TypeError):
            refuse(seq, None, t_ns, "Done", "ended_twice")
            return
        if ISSUED <= now < ENDED and seq >= 0:
            state[seq] = ENDED
        else:
            refuse(seq, now, t_ns, "Done", "ended_twice")
            return
        try:
            reason = event.finish_reason
            status[seq] = reasons.get(reason) or number_of(reason)
            if event.usage is not None or event.token_ids is not None or event.data is not None:
                append(ENDING, seq, t_ns, _ending(event))
        except (*_NOT_THE_API, EvidenceError) as error:
            state[seq] = GIVEN_UP
            violate("wrong_type", seq, t_ns, "Done")
            fail(seq, t_ns, "malformed", f"{type(event).__name__}: {error}")
            return
        # `end`, written out: a call here is a tenth of what a query costs.
        completed[seq] = t_ns
        outcome[seq] = _ABORTED if sink.lost else _COMPLETE
        finished = sink.finished
        if finished is not None:
            finished(seq)

    def chunk(seq: int, event: Chunk) -> None:
        t_ns = clock()
        try:
            now = state[seq]
        except (IndexError, TypeError):
            refuse(seq, None, t_ns, "Chunk", "after_end")
            return
        if now == ISSUED and seq >= 0:
            state[seq] = BEGUN
        elif now != BEGUN or seq < 0:
            refuse(seq, now, t_ns, "Chunk", "after_end")
            return
        try:
            append(CHUNK, seq, t_ns, encode_chunk(event.kind, event.n_tokens, event.token_ids, event.text))
        except (*_NOT_THE_API, EvidenceError) as error:
            not_an_event(seq, event, t_ns, f"{type(event).__name__}: {error}")

    def failed(seq: int, event: Failed) -> None:
        t_ns = clock()
        if not take(seq, t_ns, "Failed", "ended_twice"):
            return
        kind, detail = getattr(event, "kind", None), str(getattr(event, "detail", ""))
        if kind in FAILURES:
            fail(seq, t_ns, kind, detail)
        else:
            violate("unknown_failure", seq, t_ns, repr(kind))
            fail(seq, t_ns, "malformed", f"failed with the unknown kind {kind!r}: {detail}")

    def take(seq: Any, t_ns: int, what: str, late: str) -> bool:
        """End ``seq`` if it is in flight; its end is the caller's to write."""
        try:
            now = state[seq]
        except (IndexError, TypeError):
            refuse(seq, None, t_ns, what, late)
            return False
        if ISSUED <= now < ENDED and seq >= 0:
            state[seq] = ENDED
            return True
        refuse(seq, now, t_ns, what, late)
        return False

    def not_an_event(seq: int, event: object, t_ns: int, detail: str) -> None:
        if take(seq, t_ns, f"{type(event).__name__}", "after_end"):
            # What it yields after this is of no account, and no further breach.
            state[seq] = GIVEN_UP
            violate("wrong_type", seq, t_ns, type(event).__name__)
            fail(seq, t_ns, "malformed", detail)

    def event(seq: int, value: Any) -> None:
        """Take whatever a plugin yields."""
        kind = type(value)
        if kind is Chunk:
            chunk(seq, value)
        elif kind is Done:
            done(seq, value)
        elif kind is Failed:
            failed(seq, value)
        else:
            not_an_event(seq, value, clock(), f"a {kind.__name__} is not an event")

    def consume(seq: int, values: Iterable[Any]) -> None:
        """Take all that a generator yields, up to the first thing after its end."""
        ended = False
        for value in values:
            if type(value) is Done:
                done(seq, value)
            else:
                event(seq, value)
            if ended:
                return
            ended = state[seq] >= ENDED
        if not ended:
            no_end(seq)

    def raised(seq: int, error: BaseException) -> None:
        """The plugin raised ``error`` over ``seq``."""
        t_ns = clock()
        if take(seq, t_ns, f"{type(error).__name__}: {error}", "after_end"):
            fail(seq, t_ns, "engine_error", f"{type(error).__name__}: {error}")

    def no_end(seq: int) -> None:
        """The plugin has said all that it will about ``seq``, and no end was among it."""
        t_ns = clock()
        if take(seq, t_ns, "nothing", "after_end"):
            violate("no_end", seq, t_ns)
            fail(seq, t_ns, "truncated", "the system stopped without a Done")

    def give_up(seq: int, t_ns: int, kind: str) -> bool:
        """The driver ends ``seq`` as ``kind``, unless it has ended."""
        now = state[seq]
        if ISSUED <= now < ENDED:
            state[seq] = GIVEN_UP
            end(seq, t_ns, ENDS.index(kind))
            return True
        return False

    sink.chunk, sink.done, sink.failed = chunk, done, failed
    sink.event, sink.issue, sink.raised = event, issue, raised
    sink.no_end, sink.give_up, sink.violate = no_end, give_up, violate
    sink.append, sink.consume, sink.number_of = append, consume, number_of


def _ending(done: Done) -> bytes:
    usage = done.usage
    counts = (
        (None, None, None)
        if usage is None
        else (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    )
    return encode_ending(counts, done.token_ids, done.data)


def _short(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:_MAX_DETAIL]
