"""A scenario: one experiment, frozen, with its units in its names.

`load` builds these from TOML; every later stage takes a `Scenario` and never the file. What decides
whether two runs are comparable is everything except `settings` (see `digest`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "Accuracy",
    "Arrivals",
    "Bounds",
    "Constraints",
    "Generation",
    "Model",
    "Run",
    "Samples",
    "Scenario",
    "ScenarioKind",
    "Seeds",
    "Settings",
    "Warmup",
]

ScenarioKind = Literal["SingleStream", "MultiStream", "Server", "Offline", "Concurrency"]
ArrivalProcess = Literal["poisson", "constant", "gamma", "trace"]
InputKind = Literal["messages", "text", "token_ids", "length", "data"]
SamplingKind = Literal["replacement", "unique", "same", "equal"]
WarmupSamples = Literal["disjoint", "same"]


@dataclass(frozen=True, slots=True)
class Model:
    """The reference model the scenario is about; claims of the SUT are compared with it."""

    name: str
    weights_sha256: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    """Precisions a SUT may claim; empty means any."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Where the queries' content comes from, and what it must be."""

    source: str
    """``fairmark:NAME``, ``plugin:NAME``, a jsonl, csv or parquet file, or ``hub:ID@REVISION[:SPLIT]``."""
    prompt: str
    """The column that holds the prompt."""
    input: InputKind = "messages"
    reference: str | None = None
    """The column that holds the reference answer."""
    output_tokens: str | None = None
    """The column that holds how many tokens an answer may have; `Generation.max_output_tokens` caps it."""
    lengths_like: str | None = None
    """A recording (``fairmark:NAME``) whose lengths those of the run are compared with."""
    sha256: str | None = None
    """Content digest of the used columns (``samples.content_sha256``); None means unpinned."""
    performance_sample_count: int | None = None
    """Rows, from the first, that performance runs draw from (LoadGen's QSL performance count)."""
    accuracy_sample_count: int | None = None
    """Rows, from the first, that accuracy runs cover; None means all."""


@dataclass(frozen=True, slots=True)
class Generation:
    """What every request asks of the model."""

    max_output_tokens: int | None = None
    temperature: float = 0.0
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False


@dataclass(frozen=True, slots=True)
class Arrivals:
    """When queries arrive. Only the Server scenario has an open arrival process."""

    process: ArrivalProcess = "poisson"
    cv: float | None = None
    """Coefficient of variation of the gaps, for ``gamma``."""
    trace: str | None = None
    """For ``trace``: ``fairmark:NAME``, or a file of arrival times, relative to the scenario file."""
    sha256: str | None = None
    """For ``trace``: the digest of its arrivals (``traffic.recorded.arrivals_sha256``)."""
    think_time_s: float = 0.0
    """For Concurrency: pause between a completion and the next issue of the same user."""


@dataclass(frozen=True, slots=True)
class Seeds:
    """The three mt19937 seeds, as LoadGen names them (64-bit; LoadGen uses the low 32 bits)."""

    qsl: int
    sample_index: int
    schedule: int


@dataclass(frozen=True, slots=True)
class Warmup:
    """The phase before measuring. Its queries are recorded and never counted.

    It ends once ``queries`` have completed, ``min_duration_s`` has passed and the last two blocks of 16
    queries differ by less than 10 % in median service time; or at ``max_duration_s``, or after
    ``max_queries``, and then the record says that steadiness was not reached.
    """

    queries: int = 16
    max_queries: int | None = None
    min_duration_s: float = 0.0
    max_duration_s: float = 120.0
    samples: WarmupSamples = "disjoint"
    steady: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """Floors and limits of the measured run. `Settings` may only raise the floors."""

    min_duration_s: float = 0.0
    min_query_count: int = 100
    max_duration_s: float | None = None
    max_query_count: int | None = None
    max_outstanding_queries: int | None = None
    """Server: more than so many in flight end the run (LoadGen's ``max_async_queries``)."""
    query_timeout_s: float = 600.0
    drain_timeout_s: float = 600.0
    samples_per_query: int = 8
    """For MultiStream."""
    sampling: SamplingKind = "replacement"
    """LoadGen: default, performance_issue_unique, performance_issue_same, sample_concatenate_permutation."""
    same_index: int = 0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Latency limits at the constraint percentile; None means no limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the SUT must hold for the run to be VALID."""

    percentile: float | None = None
    """In percent; None takes LoadGen's default of the scenario (SingleStream 90, others 99)."""
    bounds: Bounds = field(default_factory=Bounds)
    max_failure_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How answers are scored, and the score below which speed counts for nothing."""

    scorer: str
    target: float
    reference: str | None = None
    """For reference scorers: ``fairmark:NAME`` or a jsonl path with ``index`` and ``text``."""
    sha256: str | None = None
    """Digest of the reference file's bytes."""
    judged: tuple[Literal["performance", "accuracy"], ...] = ("accuracy",)
    """Which phases' answers the target holds for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a submitter may choose freely. Left out of the scenario digest."""

    target_qps: float | None = None
    """Server: the offered rate. Others: LoadGen's expected-rate hint, used to size the plan."""
    concurrency: int | None = None
    min_duration_s: float | None = None
    min_query_count: int | None = None
    workers: int = 1
    repetitions: int = 1


@dataclass(frozen=True, slots=True)
class Scenario:
    """One validated scenario file.

    Attributes:
        document: the resolved file (defaults filled in), as plain JSON values.
        digest: ``scenario_digest``: SHA-256 of the RFC 8785 form of `document` without ``settings``.
        overrides: the ``--set`` assignments that were applied, in order, as ``path=value``.
        source: the file it came from, for messages only.
    """

    name: str
    benchmark: str
    scenario: ScenarioKind
    model: Model
    samples: Samples
    generation: Generation
    arrivals: Arrivals
    seeds: Seeds
    warmup: Warmup
    run: Run
    constraints: Constraints
    accuracy: Accuracy | None
    settings: Settings
    classes: Mapping[str, Constraints]
    document: Mapping[str, Any]
    digest: str
    overrides: tuple[str, ...] = ()
    source: str = ""

    @property
    def min_duration_s(self) -> float:
        """The floor, or the submitter's longer choice."""
        return max(self.run.min_duration_s, self.settings.min_duration_s or 0.0)

    @property
    def min_query_count(self) -> int:
        """The floor, or the submitter's larger choice."""
        return max(self.run.min_query_count, self.settings.min_query_count or 0)

    @property
    def percentile(self) -> float:
        """The constraint percentile as a fraction, LoadGen's per-scenario default when not given."""
        default = 90.0 if self.scenario in ("SingleStream",) else 99.0
        percent = self.constraints.percentile
        return (default if percent is None else percent) * 0.01
