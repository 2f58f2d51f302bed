"""The SUTs of the virtual clock: ``sim-queue`` and ``sim-llm``. Test instruments with known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import fairmark

__all__ = ["SimLlmSUT", "SimQueueSUT"]


@dataclass(frozen=True)
class _FaultOptions:
    """What both models can do wrong."""

    stall_every: Annotated[int, "every so many-th query is never finished; 0: none"] = 0
    fail_rate: Annotated[float, "share of the queries that end with an engine error"] = 0.0

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        if self.stall_every < 0:
            raise ValueError("stall_every must be at least 0")
        if not 0.0 <= self.fail_rate <= 1.0:
            raise ValueError("fail_rate must be from 0 to 1")


class SimQueueSUT(fairmark.SimSUT):
    """A test instrument: a queue in virtual time (M/M/c, M/D/c, or as many servers as there are queries)."""

    @dataclass(frozen=True)
    class Options(_FaultOptions):
        """The queue."""

        service_ms: Annotated[float, "mean service time"] = 10.0
        service: Annotated[
            Literal["constant", "exponential", "lognormal"], "distribution of the service time"
        ] = "constant"
        cv: Annotated[float, "coefficient of variation of log-normal times"] = 1.0
        servers: Annotated[int | None, "queries served at once; default: all"] = None

        def __post_init__(self) -> None:
            """Refuse what means nothing."""
            # Not super(): a class in a class body is not what its dataclass decorator returns.
            _FaultOptions.__post_init__(self)
            if not 0.0 <= self.service_ms < math.inf:
                raise ValueError("service_ms must be finite and at least 0")
            if self.service == "lognormal" and (self.service_ms == 0.0 or not 0.0 < self.cv < math.inf):
                raise ValueError("log-normal times need a mean and a cv above 0")
            if self.servers is not None and self.servers < 1:
                raise ValueError("servers must be at least 1")

    options: Options

    def describe(self) -> Mapping[str, Any]:
        """What it is, and the truth it was given."""
        return _claims("queue", self.options)

    def simulation(self, seed: int) -> fairmark.Simulation:
        """An empty queue. Streams of words: ``service`` and ``faults``."""
        from fairmark_sim.models import Faults, Queue, Service, Uniforms, constant, exponential, lognormal

        options, mean_s = self.options, self.options.service_ms / 1e3
        service: Service
        match options.service:
            case "constant":
                service = constant(mean_s)
            case "exponential":
                service = exponential(mean_s, Uniforms(seed, "service"))
            case "lognormal":
                service = lognormal(mean_s, options.cv, Uniforms(seed, "service"))
        faults = Faults(options.stall_every, options.fail_rate, Uniforms(seed, "faults"))
        return Queue(service, options.servers, faults)


class SimLlmSUT(fairmark.SimSUT):
    """A test instrument: a language-model engine with continuous batching, in virtual time."""

    @dataclass(frozen=True)
    class Options(_FaultOptions):
        """The engine."""

        prefill_ms: Annotated[float, "for each prompt, besides its tokens"] = 5.0
        prefill_token_us: Annotated[float, "for each token of a prompt"] = 50.0
        decode_ms: Annotated[float, "a decode step of one sequence"] = 10.0
        decode_more_ms: Annotated[float, "more for every further sequence in the step"] = 0.2
        max_batch: Annotated[int, "sequences in a step"] = 64
        kv_tokens: Annotated[int | None, "size of the key-value cache; default: unlimited"] = None
        output_tokens: Annotated[int, "length of an answer, unless the request allows less"] = 128

        def __post_init__(self) -> None:
            """Refuse what means nothing."""
            _FaultOptions.__post_init__(self)
            for name in ("prefill_ms", "prefill_token_us", "decode_more_ms"):
                if not 0.0 <= getattr(self, name) < math.inf:
                    raise ValueError(f"{name} must be finite and at least 0")
            if not 0.0 < self.decode_ms < math.inf:
                raise ValueError("decode_ms must be finite and above 0")
            for name in ("max_batch", "output_tokens"):
                if getattr(self, name) < 1:
                    raise ValueError(f"{name} must be at least 1")
            if self.kv_tokens is not None and self.kv_tokens < 1:
                raise ValueError("kv_tokens must be at least 1")

    options: Options

    def describe(self) -> Mapping[str, Any]:
        """What it is, and the truth it was given."""
        return _claims("continuous batching", self.options)

    def simulation(self, seed: int) -> fairmark.Simulation:
        """An idle engine. Stream of words: ``faults``."""
        from fairmark_sim.models import BatchCosts, ContinuousBatching, Faults, Uniforms

        options = self.options
        costs = BatchCosts(
            prefill_ns=round(options.prefill_ms * 1e6),
            prefill_token_ns=round(options.prefill_token_us * 1e3),
            decode_ns=round(options.decode_ms * 1e6),
            decode_more_ns=round(options.decode_more_ms * 1e6),
        )
        return ContinuousBatching(
            costs,
            max_batch=options.max_batch,
            kv_tokens=options.kv_tokens,
            output_tokens=options.output_tokens,
            faults=Faults(options.stall_every, options.fail_rate, Uniforms(seed, "faults")),
        )


def _claims(model: str, options: Any) -> dict[str, Any]:
    return {
        "engine": "fairmark_sim",
        "version": fairmark.__version__,
        "test_instrument": True,
        "simulated": {"model": model, **asdict(options)},
    }
