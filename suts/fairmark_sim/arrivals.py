"""The server's own account of what reached it and when: the ground truth that tests compare with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import orjson

__all__ = ["Arrival", "ArrivalLog"]


@dataclass(slots=True)
class Arrival:
    """One request as the server saw it. All times are CLOCK_MONOTONIC nanoseconds of this machine.

    Attributes:
        request: number of the request in order of arrival, from 1.
        connection: number of the connection it came on, from 1.
        arrival_ns: the first byte of the request was read.
        received_ns: its last byte was read.
        start_ns: a server was free and service began.
        first_token_ns: just before the write that held the first token.
        end_ns: just after the last write, or the moment the connection broke.
        in_flight: requests received and not ended, this one included, when it was received.
        outcome: ``sent``, ``broken`` (by a fault), ``disconnected`` (by the client) or ``unfinished``
            (the server was stopped first).
    """

    request: int
    connection: int
    path: str
    arrival_ns: int
    received_ns: int
    body_sha256: str
    prompt_sha256: str
    in_flight: int
    faults: list[str] = field(default_factory=list)
    status: int | None = None
    start_ns: int | None = None
    first_token_ns: int | None = None
    end_ns: int | None = None
    output_tokens: int = 0
    outcome: str = "unfinished"


class ArrivalLog:
    """Appends one JSON line per ended request to a file, if there is one; each line is written at once."""

    def __init__(self, path: Path | None) -> None:
        self._file: BinaryIO | None = None if path is None else path.open("ab", buffering=0)

    def write(self, arrival: Arrival) -> None:
        """Append ``arrival``."""
        if self._file is not None:
            self._file.write(orjson.dumps(arrival, option=orjson.OPT_APPEND_NEWLINE))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
