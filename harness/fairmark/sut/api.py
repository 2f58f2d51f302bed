"""What a vendor writes: one class for the engine, about twenty lines.

Pick the shape that fits the engine. Events are yielded, not reported: threads, loops, batch queues and
time stamps belong to the driver, and the driver enforces that each query completes exactly once.

=============  ============================================  =============================================
`SyncSUT`      ``generate(sample)`` yields events            engines with a blocking call
`AsyncSUT`     ``async generate(sample)`` yields events      engines with an event loop
`BatchSUT`     ``infer(samples)`` returns or yields          engines that want whole batches
`CallbackSUT`  ``issue(queries, sink)``                      engines with threads of their own
`WireSUT`      an endpoint and a dialect                     servers: the driver owns the sockets
=============  ============================================  =============================================

Simulated systems, which run on a virtual clock, have a shape of their own: `fairmark.sut.sim`.

A class may implement several shapes; the scenario decides which one is used.
Free-threaded builds of Python are refused: exactly-once rests on the interpreter lock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, overload

from fairmark.samples.sample import Sample

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "SUT",
    "AsyncSUT",
    "BatchSUT",
    "CallbackSUT",
    "Chunk",
    "Done",
    "Endpoint",
    "Event",
    "Failed",
    "Query",
    "QueryBlock",
    "Sink",
    "SyncSUT",
    "Usage",
    "WireSUT",
]


# An engine makes one of these per query or more, and a frozen one takes four times as long to make. The
# driver reads an event when it is reported and keeps nothing of it.


@dataclass(slots=True)
class Usage:
    """Token counts as the engine itself reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(slots=True)
class Chunk:
    """A piece of output. ``n_tokens`` or ``token_ids`` say how many tokens it holds, when known."""

    text: str = ""
    token_ids: Sequence[int] | None = None
    n_tokens: int | None = None
    kind: Literal["content", "reasoning", "tool"] = "content"


@dataclass(slots=True)
class Done:
    """The terminal evidence of a query. ``data`` carries the result of non-language tasks."""

    finish_reason: str = "stop"
    usage: Usage | None = None
    token_ids: Sequence[int] | None = None
    data: bytes | None = None


@dataclass(slots=True)
class Failed:
    """The query failed; ``kind`` is one of ``fairmark.evidence.columns.FAILURES``."""

    kind: str
    detail: str = ""


Event = Chunk | Done | Failed


@dataclass(slots=True)
class Query:
    """What a `CallbackSUT` is handed: ``seq`` names the query in every call to the sink."""

    seq: int
    sample: Sample


class QueryBlock(Sequence[Query]):
    """The samples of the one Offline query, as arrays. As a sequence it makes each `Query` when it is read.

    Attributes:
        seq: int64[samples], the name of each query in calls to the sink; ascending without gaps.
        sample_index: int64[samples], the index of each query's sample.
        samples: the sample of each query.
    """

    __slots__ = ("sample_index", "samples", "seq")

    def __init__(
        self,
        seq: npt.NDArray[np.int64],
        sample_index: npt.NDArray[np.int64],
        samples: Sequence[Sample],
    ) -> None:
        self.seq = seq
        self.sample_index = sample_index
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Query]:
        first = int(self.seq[0]) if len(self.seq) else 0
        return map(Query, range(first, first + len(self.samples)), self.samples)

    @overload
    def __getitem__(self, position: int) -> Query: ...

    @overload
    def __getitem__(self, position: slice) -> QueryBlock: ...

    def __getitem__(self, position: int | slice) -> Query | QueryBlock:
        if isinstance(position, slice):
            start, stop, step = position.indices(len(self.samples))
            if step != 1:
                raise ValueError(f"a block cannot be cut in steps of {step}")
            if stop - start == len(self.samples):
                return self
            return QueryBlock(self.seq[position], self.sample_index[position], self.samples[position])
        return Query(int(self.seq[position]), self.samples[position])


class Sink(Protocol):
    """Where a `CallbackSUT` reports. Every method may be called from any thread, once per fact.

    The stamp is taken at entry. Reporting an unknown or finished ``seq`` is recorded as a violation and
    never changes what was stamped first.
    """

    def chunk(self, seq: int, chunk: Chunk) -> None:
        """Report a piece of output of query ``seq``."""

    def done(self, seq: int, done: Done) -> None:
        """Report that query ``seq`` completed."""

    def failed(self, seq: int, failed: Failed) -> None:
        """Report that query ``seq`` failed."""

    def done_many(
        self,
        seqs: npt.ArrayLike,
        output_tokens: npt.ArrayLike | None = None,
        input_tokens: npt.ArrayLike | None = None,
        finish_reason: str = "stop",
    ) -> None:
        """Report that the queries ``seqs`` completed, all of them now and for one reason.

        Args:
            seqs: int[n]; ascending without gaps is the quickest.
            output_tokens, input_tokens: int[n], the engine's own counts, in the order of ``seqs``.
        """


class SUT:
    """The life of every system under test: open, load, run, flush, unload, close.

    ``Options`` is a frozen dataclass; its fields become ``-o name=value`` options, documentation,
    validation and part of the record.
    """

    @dataclass(frozen=True)
    class Options:
        """Options of a system that has none."""

    logs: Path | None = None
    """Where log files of the engine go; set before `open`. What is there at the end becomes evidence."""

    traces: Path | None = None
    """In a run under the engine's profiler: where `profile` writes; set before `open`, else None."""

    def __init__(self, options: Any) -> None:
        self.options = options

    def open(self) -> None:
        """Start or connect to the engine. Untimed; a failure here is exit code 3."""

    def describe(self) -> Mapping[str, Any]:
        """Claims about the engine: engine, version, precision, weights_sha256, accelerator, flags."""
        return {}

    def load(self, samples: Sequence[Sample]) -> None:
        """Bring ``samples`` into memory before they can be asked for. Untimed."""

    def profile(self) -> AbstractContextManager[None]:
        """Profile everything that is asked within, and leave the traces in `traces`.

        Traces are files in the Chrome format, ``*.json`` or ``*.json.gz``, as torch.profiler writes them;
        ``fairmark report`` reads the operators out of them. An engine without a profiler leaves this alone.
        """
        raise NotImplementedError

    def flush(self) -> None:
        """The last query of a phase has been issued: do not wait to fill batches any more."""

    def unload(self) -> None:
        """Drop what `load` brought in."""

    def close(self) -> None:
        """Stop the engine. Called once, also after failures."""


class SyncSUT(SUT, ABC):
    """An engine with a blocking call; the driver runs ``concurrency`` threads over it.

    Attributes:
        holds_gil: whether it may hold the interpreter lock for more than a moment. Then Server's queries
            are issued from a process of their own, so that they are on time.
    """

    concurrency: int = 1
    holds_gil: ClassVar[bool] = True

    @abstractmethod
    def generate(self, sample: Sample) -> Iterator[Event]:
        """Yield `Chunk` objects as they are produced and exactly one `Done` or `Failed` at the end."""


class AsyncSUT(SUT, ABC):
    """An engine with an event loop; queries are tasks on the driver's loop.

    Attributes:
        max_in_flight: how many samples of the one Offline query may be in flight; None hands all of them
            over at once. Other scenarios are never capped.
    """

    max_in_flight: int | None = None

    @abstractmethod
    def generate(self, sample: Sample) -> AsyncIterator[Event]:
        """Yield `Chunk` objects as they are produced and exactly one `Done` or `Failed` at the end."""


class BatchSUT(SUT, ABC):
    """An engine that wants whole batches; waiting to fill one counts as latency.

    Attributes:
        holds_gil: as in `SyncSUT`.
    """

    max_batch: int = 1
    holds_gil: ClassVar[bool] = True
    max_wait_ms: float = 0.0

    @abstractmethod
    def infer(self, samples: Sequence[Sample]) -> Sequence[Done] | Iterable[tuple[int, Event]]:
        """Return one `Done` per sample in order, or yield ``(position, event)`` as they happen."""


class CallbackSUT(SUT, ABC):
    """An engine with threads of its own, in LoadGen's shape."""

    @abstractmethod
    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        """Accept ``queries`` and return; report to ``sink`` from any thread."""

    def issue_block(self, block: QueryBlock, sink: Sink) -> None:
        """Accept the one query of Offline as arrays; an engine that has no use for them leaves this alone."""
        self.issue(block, sink)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a `WireSUT` is reached.

    ``headers`` are sent as they are and recorded; ``secret_headers`` are sent and never recorded.
    """

    host: str
    port: int
    path: str
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def url(self) -> str:
        """The whole address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{self.path}"


class WireSUT(SUT, ABC):
    """A server. The driver owns sockets, pacing and stamps; the plugin names the endpoint and dialect.

    Attributes:
        dialect: a name from ``fairmark.wire.dialects``. Stored responses are decoded by that dialect
            after the run and again by every audit.
        model: the model name that goes into requests.
        stream: whether responses are streamed; without it there is no first token, and TTFT is null.
        max_in_flight: how many samples of the one Offline query may be in flight; other scenarios are
            never capped.
        extra: fields added to every request body, such as a server's switch for its prompt cache.
        template: for the dialect ``json-template``, the template (schemas/http-template.schema.json).
    """

    dialect: str
    model: str
    stream: bool = True
    max_in_flight: int = 64
    extra: Mapping[str, Any] = MappingProxyType({})
    template: Mapping[str, Any] | None = None

    @abstractmethod
    def endpoints(self) -> Sequence[Endpoint]:
        """The endpoints to spread queries over, in order. Called after `open`."""

    def cores(self) -> Sequence[int] | None:
        """CPU cores this system was pinned to on this machine; None when that is not known."""
        return None
