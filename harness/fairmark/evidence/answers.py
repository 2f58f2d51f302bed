"""Columns of the contract's tables that come out of decoded responses."""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np

from fairmark.evidence.columns import EVENT_KINDS
from fairmark.evidence.decode import Answer

__all__ = ["AnswerColumns"]

_KIND_NUMBERS: Final[dict[str, int]] = {kind: number for number, kind in enumerate(EVENT_KINDS)}

_OF_RESPONSE: Final = (
    "input_tokens",
    "input_token_source",
    "output_tokens",
    "output_token_source",
    "cached_tokens",
    "finish_reason",
    "http_status",
)
_OF_ANSWER: Final = (
    "first_byte_ns",
    "first_token_ns",
    "last_token_ns",
    "failure",
    "failure_detail",
    "flags",
    "output_sha256",
)


class AnswerColumns:
    """Grows by one answer at a time, in seq order. Events, of which there are many, are typed arrays.

    Attributes:
        queries: columns of ``queries``, one entry per answer.
        outputs: columns of ``outputs``, for answers with any output.
    """

    def __init__(self) -> None:
        self.queries: dict[str, list[Any]] = {name: [] for name in (*_OF_RESPONSE, *_OF_ANSWER)}
        self.outputs: dict[str, list[Any]] = {
            name: [] for name in ("seq", "text", "reasoning", "token_ids", "data")
        }
        self._event_seq, self._event_ns, self._event_read = array("q"), array("q"), array("i")
        self._event_kind, self._event_tokens = array("b"), array("i")

    def add(self, seq: int, answer: Answer, data: bytes | None = None) -> None:
        """Add the answer of the next sample; ``data`` is an answer that is not text."""
        response = answer.response
        for name in _OF_RESPONSE:
            self.queries[name].append(getattr(response, name))
        for name in _OF_ANSWER:
            self.queries[name].append(getattr(answer, name))
        if response.text or response.reasoning or response.token_ids or data is not None:
            for name, value in (
                ("seq", seq),
                ("text", response.text),
                ("reasoning", response.reasoning),
                ("token_ids", response.token_ids),
                ("data", data),
            ):
                self.outputs[name].append(value)
        if response.events:
            times, reads, kinds, tokens = zip(*response.events, strict=True)
            self._event_seq.extend([seq] * len(times))
            self._event_ns.extend(times)
            self._event_read.extend(reads)
            self._event_kind.extend([_KIND_NUMBERS[kind] for kind in kinds])
            self._event_tokens.extend([-1 if n is None else n for n in tokens])

    def events(self) -> dict[str, Any]:
        """Columns of ``events``."""
        tokens = np.array(self._event_tokens, dtype=np.int32)
        return {
            "seq": np.array(self._event_seq, dtype=np.int64),
            "arrival_ns": np.array(self._event_ns, dtype=np.int64),
            "read": np.array(self._event_read, dtype=np.int32),
            "kind": np.array(EVENT_KINDS, dtype=object)[np.array(self._event_kind, dtype=np.int8)],
            "n_tokens": np.ma.masked_array(tokens, tokens < 0),
        }
