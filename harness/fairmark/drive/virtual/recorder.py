"""What happened to every sample, in memory: a simulated run that is killed is simply run again."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from fairmark.errors import SutError
from fairmark.evidence.columns import EVENT_KINDS, FAILURES
from fairmark.sut.api import Chunk, Done, Event, Failed, Usage

__all__ = ["NEVER", "Recorder"]

NEVER: Final = -1
"""The stamp of what did not happen. Virtual time begins at 0."""

_FINISH: Final = EVENT_KINDS.index("finish")
_USAGE: Final = EVENT_KINDS.index("usage")
_ERROR: Final = EVENT_KINDS.index("error")


class Recorder:
    """Stamps in virtual ns, one slot per planned sample, and the events in the order they happened.

    Attributes:
        issued, first_token, last_token, completed: int64 by seq, `NEVER` where it did not happen.
        finish: finish reasons by seq.
        failure: failures by seq.
        usage: token counts as the system reports them.
        text, reasoning, token_ids, data: output by seq, where there is any.
        event_seq, event_ns, event_read, event_kind, event_tokens: the columns of the events; the kind is a
            position in `EVENT_KINDS`, and -1 tokens are unknown.
    """

    def __init__(self, samples: int) -> None:
        self.issued = array("q", [NEVER]) * samples
        self.first_token = self.issued[:]
        self.last_token = self.issued[:]
        self.completed = self.issued[:]
        self.finish: dict[int, str] = {}
        self.failure: dict[int, Failed] = {}
        self.usage: dict[int, Usage] = {}
        self.text: dict[int, str] = {}
        self.reasoning: dict[int, str] = {}
        self.token_ids: dict[int, list[int]] = {}
        self.data: dict[int, bytes] = {}
        self.event_seq, self.event_ns, self.event_read = array("q"), array("q"), array("i")
        self.event_kind, self.event_tokens = array("b"), array("i")
        self._read: dict[int, tuple[int, int]] = {}

    def event(self, seq: int, now_ns: int, event: Event) -> bool:
        """Record an event of ``seq``; whether it was the last one.

        Raises:
            SutError: the system names a kind of failure that there is not.
        """
        if isinstance(event, Chunk):
            self._chunk(seq, now_ns, event)
            return False
        if isinstance(event, Done):
            self._done(seq, now_ns, event)
        else:
            if event.kind not in FAILURES:
                raise SutError(f"the simulation fails query {seq} with the unknown kind {event.kind!r}")
            self._add(seq, now_ns, _ERROR, None)
            self.fail(seq, now_ns, event)
        self._read.pop(seq, None)
        return True

    def fail(self, seq: int, now_ns: int, failed: Failed) -> None:
        """Record the end of ``seq``."""
        self.completed[seq] = now_ns
        self.failure[seq] = failed

    def _chunk(self, seq: int, now_ns: int, chunk: Chunk) -> None:
        tokens = chunk.n_tokens
        if chunk.token_ids is not None:
            tokens = len(chunk.token_ids)
            self.token_ids.setdefault(seq, []).extend(chunk.token_ids)
        self._add(seq, now_ns, EVENT_KINDS.index(chunk.kind), tokens)
        if tokens != 0:
            self.last_token[seq] = now_ns
            if self.first_token[seq] == NEVER:
                self.first_token[seq] = now_ns
        if chunk.text and chunk.kind != "tool":
            output = self.text if chunk.kind == "content" else self.reasoning
            output[seq] = output.get(seq, "") + chunk.text

    def _done(self, seq: int, now_ns: int, done: Done) -> None:
        self._add(seq, now_ns, _FINISH, None)
        if done.usage is not None:
            self._add(seq, now_ns, _USAGE, None)
            self.usage[seq] = done.usage
        if done.token_ids is not None:
            self.token_ids[seq] = list(done.token_ids)
        if done.data is not None:
            self.data[seq] = done.data
        self.finish[seq] = done.finish_reason
        self.completed[seq] = now_ns

    def _add(self, seq: int, now_ns: int, kind: int, tokens: int | None) -> None:
        self.event_seq.append(seq)
        self.event_ns.append(now_ns)
        self.event_read.append(self._read_number(seq, now_ns))
        self.event_kind.append(kind)
        self.event_tokens.append(-1 if tokens is None else tokens)

    def _read_number(self, seq: int, now_ns: int) -> int:
        """Events of one response share a number where they share a time."""
        number, at_ns = self._read.get(seq, (-1, NEVER))
        if at_ns != now_ns:
            number += 1
            self._read[seq] = number, now_ns
        return number

    def output_tokens(self, seq: int) -> tuple[int | None, str | None]:
        """How many tokens ``seq`` has put out, and who counted: its ids, else the system's own usage."""
        ids: Sequence[int] | None = self.token_ids.get(seq)
        if ids is not None:
            return len(ids), "ids"
        usage = self.usage.get(seq)
        if usage is None or usage.output_tokens is None:
            return None, None
        return usage.output_tokens, "usage"
