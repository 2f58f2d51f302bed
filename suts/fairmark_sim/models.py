"""Models of serving systems with known behaviour: a queue, and an engine that batches continuously.

Pure: nothing here knows a clock. Randomness is mt19937 words, a stream of its own for each purpose, seeded
by `fairmark.traffic.seeds.derive_seed`; logarithms are the C library's, one at a time, so that equal seeds
give equal times everywhere.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from typing import Final

from fairmark import Chunk, Done, Event, Failed, Sample, Simulation, Usage
from fairmark.traffic.draws import draw_unit
from fairmark.traffic.mt19937 import Mt19937
from fairmark.traffic.seeds import derive_seed

__all__ = [
    "BatchCosts",
    "ContinuousBatching",
    "Faults",
    "Queue",
    "Service",
    "Uniforms",
    "constant",
    "exponential",
    "lognormal",
    "prompt_tokens",
]

_BLOCK: Final = 1024
_FAILED: Final = Failed("engine_error", "simulated failure")
_TOKEN: Final = Chunk(n_tokens=1)

Service = Callable[[], int]
"""Draws the service time of the next query, in ns."""


class Uniforms:
    """Draws from [0, 1), two words each (``std::generate_canonical<double, 53>``).

    Args:
        seed: of the run.
        stream: what the draws are for; equal seeds give different numbers for different purposes.
    """

    def __init__(self, seed: int, stream: str) -> None:
        self._words = Mt19937(derive_seed(f"simulation.{stream}", seed, 0, None, None))
        self._ready: list[float] = []

    def __call__(self) -> float:
        if not self._ready:
            self._ready = draw_unit(self._words, _BLOCK)[::-1].tolist()
        return self._ready.pop()


def constant(mean_s: float) -> Service:
    """Always the same time."""
    time_ns = round(mean_s * 1e9)
    return lambda: time_ns


def exponential(mean_s: float, uniforms: Uniforms) -> Service:
    """Exponential times, by inversion: -mean * log(1 - U)."""
    mean_ns = mean_s * 1e9
    return lambda: round(-math.log(1.0 - uniforms()) * mean_ns)


def lognormal(mean_s: float, cv: float, uniforms: Uniforms) -> Service:
    """Log-normal times with this mean and coefficient of variation.

    exp(mu + sigma * Z) with sigma^2 = log(1 + cv^2) and mu = log(mean) - sigma^2 / 2; Z is the cosine normal
    of Box and Muller, "A note on the generation of random normal deviates" (Ann. Math. Statist. 29, 1958).
    """
    variance = math.log1p(cv * cv)
    mu, sigma = math.log(mean_s * 1e9) - variance / 2.0, math.sqrt(variance)

    def draw() -> int:
        radius = math.sqrt(-2.0 * math.log(1.0 - uniforms()))
        return round(math.exp(mu + sigma * radius * math.cos(2.0 * math.pi * uniforms())))

    return draw


class Faults:
    """Which queries go wrong.

    Args:
        stall_every: every so many-th query is never finished; 0 is none.
        fail_rate: share of the other queries that end with an engine error.
    """

    def __init__(self, stall_every: int, fail_rate: float, uniforms: Uniforms) -> None:
        self._stall_every = stall_every
        self._fail_rate = fail_rate
        self._uniforms = uniforms
        self._count = 0

    def stalls(self) -> bool:
        """Whether the next query stalls. Asked once per query, in order of arrival."""
        self._count += 1
        return self._stall_every > 0 and self._count % self._stall_every == 0

    def fails(self) -> bool:
        """Whether a query that does not stall fails. Asked once per such query, in order of arrival."""
        return self._fail_rate > 0.0 and self._uniforms() < self._fail_rate


class Queue(Simulation):
    """First come, first served by ``servers`` equal servers; None means one for every query.

    An answer comes whole: there are no chunks and no tokens. A query that stalls gets lost before it reaches
    a server; one that fails takes its service time first.
    """

    def __init__(self, service: Service, servers: int | None, faults: Faults) -> None:
        self._service = service
        self._free_ns = None if servers is None else [0] * servers
        self._faults = faults
        self._ends: list[tuple[int, int, Event]] = []

    def issue(self, now_ns: int, seq: int, sample: Sample) -> None:
        """Give the query to the server that is free first, at the time it will be."""
        if self._faults.stalls():
            return
        outcome: Event = _FAILED if self._faults.fails() else Done()
        service_ns, free_ns = self._service(), self._free_ns
        if free_ns is None:
            end_ns = now_ns + service_ns
        else:
            end_ns = max(now_ns, free_ns[0]) + service_ns
            heapreplace(free_ns, end_ns)
        heappush(self._ends, (end_ns, seq, outcome))

    def next_ns(self) -> int | None:
        """The next completion."""
        return self._ends[0][0] if self._ends else None

    def advance(self) -> Sequence[tuple[int, Event]]:
        """Everything that completes at that time."""
        now_ns = self._ends[0][0]
        ended: list[tuple[int, Event]] = []
        while self._ends and self._ends[0][0] == now_ns:
            _, seq, outcome = heappop(self._ends)
            ended.append((seq, outcome))
        return ended


@dataclass(frozen=True, slots=True)
class BatchCosts:
    """What a step of a continuously batching engine takes.

    Attributes:
        prefill_ns: for each prompt, besides its tokens.
        prefill_token_ns: for each token of a prompt.
        decode_ns: for decoding one sequence by one token.
        decode_more_ns: for every further sequence decoded in the same step.
    """

    prefill_ns: int
    prefill_token_ns: int
    decode_ns: int
    decode_more_ns: int

    def step_ns(self, prompts: Sequence[int], decoding: int) -> int:
        """The length of a step with these prompts, in tokens each, and this many decoding sequences."""
        prefill = sum(self.prefill_ns + tokens * self.prefill_token_ns for tokens in prompts)
        decode = self.decode_ns + (decoding - 1) * self.decode_more_ns if decoding else 0
        return prefill + decode


@dataclass(slots=True)
class _Sequence:
    """A query inside the engine; ``stalls`` or ``fails`` where others would go on."""

    seq: int
    input_tokens: int
    output_tokens: int
    stalls: bool
    fails: bool
    produced: int = 0

    @property
    def reserved(self) -> int:
        """Cache entries it holds from admission to its end."""
        return self.input_tokens + self.output_tokens


class ContinuousBatching(Simulation):
    """A language-model engine that forms a new batch at every step.

    At the start of a step waiting queries are admitted, in order, while fewer than ``max_batch`` run and the
    key-value cache has room for all tokens they may come to. The step prefills the new ones and decodes the
    others by a token; at its end each of them has one token more. A query with more tokens than the whole
    cache is rejected. A query that stalls says nothing after its first token, and leaves the batch; one that
    fails does so in place of its first token.

    Args:
        output_tokens: length of an answer, unless its request allows less.
        kv_tokens: size of the cache in tokens; None is unlimited.
    """

    def __init__(
        self,
        costs: BatchCosts,
        *,
        max_batch: int,
        kv_tokens: int | None,
        output_tokens: int,
        faults: Faults,
    ) -> None:
        self._costs = costs
        self._max_batch = max_batch
        self._kv_free = math.inf if kv_tokens is None else kv_tokens
        self._kv_tokens = self._kv_free
        self._output_tokens = output_tokens
        self._faults = faults
        self._waiting: deque[_Sequence] = deque()
        self._batch: list[_Sequence] = []
        self._stepping = False
        self._next_ns: int | None = None

    def issue(self, now_ns: int, seq: int, sample: Sample) -> None:
        """Queue the query; an idle engine starts a step at once, with everything issued at this time."""
        limit = sample.generation.max_output_tokens
        stalls = self._faults.stalls()
        query = _Sequence(
            seq=seq,
            input_tokens=prompt_tokens(sample),
            output_tokens=self._output_tokens if limit is None else min(self._output_tokens, limit),
            stalls=stalls,
            fails=not stalls and self._faults.fails(),
        )
        self._waiting.append(query)
        if self._next_ns is None:
            self._next_ns = now_ns

    def next_ns(self) -> int | None:
        """The end of the step; when the engine was idle, the time of the query that woke it."""
        return self._next_ns

    def advance(self) -> Sequence[tuple[int, Event]]:
        """End the step and start the next one, if there is work for it."""
        assert self._next_ns is not None
        events: list[tuple[int, Event]] = []
        if self._stepping:
            self._batch = [query for query in self._batch if self._continues(query, events)]
        decoding = len(self._batch)
        admitted = self._admit(events)
        self._batch += admitted
        self._stepping = bool(self._batch)
        if self._stepping:
            self._next_ns += self._costs.step_ns([query.input_tokens for query in admitted], decoding)
        else:
            self._next_ns = None
        return events

    def _continues(self, query: _Sequence, events: list[tuple[int, Event]]) -> bool:
        """Give ``query`` what the step brought; whether it is in the next step's batch."""
        if query.fails:
            events.append((query.seq, _FAILED))
            self._kv_free += query.reserved
            return False
        query.produced += 1
        events.append((query.seq, _TOKEN))
        if query.produced < query.output_tokens and not query.stalls:
            return True
        self._kv_free += query.reserved
        if not query.stalls:
            events.append((query.seq, Done("length", Usage(query.input_tokens, query.output_tokens))))
        return False

    def _admit(self, events: list[tuple[int, Event]]) -> list[_Sequence]:
        admitted: list[_Sequence] = []
        while self._waiting and len(self._batch) + len(admitted) < self._max_batch:
            query = self._waiting[0]
            if query.reserved > self._kv_tokens:
                events.append((query.seq, Failed("rejected", "longer than the key-value cache")))
            elif query.reserved > self._kv_free:
                break
            else:
                self._kv_free -= query.reserved
                admitted.append(query)
            self._waiting.popleft()
        return admitted


def prompt_tokens(sample: Sample) -> int:
    """Tokens of a prompt: its ids where it has them, else its words."""
    if sample.token_ids is not None:
        return len(sample.token_ids)
    if sample.prompt is None:
        return 0
    if isinstance(sample.prompt, str):
        return len(sample.prompt.split())
    return sum(len(message["content"].split()) for message in sample.prompt)
