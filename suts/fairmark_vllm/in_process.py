"""The ``vllm`` SUT: vLLM's asynchronous engine on the driver's own loop, with continuous batching."""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import psutil

import fairmark
from fairmark import Chunk, Done, Event, Failed, Sample, Usage
from fairmark_vllm.guard import end, start_guard
from fairmark_vllm.model import find_model, weights_sha256

__all__ = ["VllmSUT"]

_ENVIRONMENT: Mapping[str, str] = {
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",  # what the worker writes there is kept
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",  # they name files of this machine, and the log is evidence
}
_OWN = frozenset(
    {"model", "dtype", "max_model_len", "max_num_seqs", "enforce_eager", "enable_prefix_caching"}
)


class VllmSUT(fairmark.AsyncSUT):
    """vLLM's engine. It computes in processes of its own; this one only takes tokens from it."""

    @dataclass(frozen=True)
    class Options:
        """The engine's arguments."""

        model: Annotated[str, "folder of the model: config.json, weights and tokenizer"]
        dtype: Annotated[str, "precision of weights and activations"] = "auto"
        max_model_len: Annotated[int | None, "prompt and output tokens together; default: the model's"] = None
        max_num_seqs: Annotated[int | None, "sequences decoded together; default: vLLM's"] = None
        enforce_eager: Annotated[bool, "start faster and run slower: do not compile the model"] = False
        prefix_caching: Annotated[bool, "reuse KV cache between queries, as vLLM does unless told"] = True
        engine_args: Annotated[Mapping[str, Any], "further arguments of vLLM's AsyncEngineArgs"] = field(
            default_factory=dict
        )
        max_in_flight: Annotated[int | None, "Offline only: samples in flight at once; default: all"] = None

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            taken = sorted(_OWN & self.engine_args.keys())
            if taken:
                raise ValueError(f"engine_args must not hold {taken[0]}, which has an option of its own")
            if self.max_in_flight is not None and self.max_in_flight < 1:
                raise ValueError("max_in_flight must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.max_in_flight = options.max_in_flight
        self._engine: Any = None
        self._params: dict[int, Any] = {}
        self._prompts: dict[int, Sequence[int]] = {}
        self._numbers = itertools.count()
        self._processes: list[psutil.Process] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._claims: dict[str, Any] = {}

    def open(self) -> None:
        """Start the engine and its processes.

        Raises:
            InputError: vLLM is not installed, or there is no such model.
        """
        folder = find_model(self.options.model)
        _require_vllm()
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        warnings.simplefilter("ignore")
        import vllm
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        arguments = self._arguments()
        before = set(psutil.Process().children(recursive=True))
        try:
            # A relative path, for the same reason.
            where = {"model": os.path.relpath(folder), "served_model_name": folder.name}
            self._engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**where, **arguments))
        finally:
            started = set(psutil.Process().children(recursive=True)) - before
            self._processes = sorted(started, key=lambda process: process.pid)
        self._guard = start_guard([process.pid for process in self._processes])
        config = self._engine.vllm_config
        self._claims = {
            "engine": "vLLM",
            "version": vllm.__version__,
            "model": folder.name,
            "weights_sha256": weights_sha256(folder),
            "precision": str(config.model_config.dtype).removeprefix("torch."),
            "quantization": config.model_config.quantization,
            "kv_cache_precision": str(config.cache_config.cache_dtype),
            "context_tokens": config.model_config.max_model_len,
            "slots": config.scheduler_config.max_num_seqs,
            "prompt_cache": bool(config.cache_config.enable_prefix_caching),
            "speculative_decoding": config.speculative_config is not None,
            "accelerator": _accelerator(),
            "flags": arguments,
        }

    def describe(self) -> Mapping[str, Any]:
        """Engine, version, weights digest, precision, and how it batches and caches."""
        return self._claims

    def load(self, samples: Sequence[Sample]) -> None:
        """Tokenise the prompts, through the chat template where they are messages.

        Raises:
            InputError: a sample has no prompt, or the model has no chat template for it.
        """
        tokenizer = self._engine.get_tokenizer()
        for sample in samples:
            self._prompts[sample.index] = _token_ids(tokenizer, sample)
            # Rows may have limits of their own.
            self._params[sample.index] = _sampling(sample.generation)

    async def generate(self, sample: Sample) -> AsyncIterator[Event]:
        """Hand the prompt to the engine and pass its tokens on as they come."""
        # Said to be tokens, it is not looked at again by vLLM's tokeniser.
        prompt = {"type": "token", "prompt_token_ids": self._prompts[sample.index]}
        params = self._params[sample.index]
        generated = 0
        async for output in self._engine.generate(prompt, params, str(next(self._numbers))):
            (answer,) = output.outputs
            generated += len(answer.token_ids)
            if answer.token_ids or answer.text:
                yield Chunk(answer.text, token_ids=list(answer.token_ids))
            if answer.finish_reason == "abort":
                yield Failed("cancelled", "vLLM aborted the request")
            elif answer.finish_reason == "error":
                yield Failed("engine_error", "vLLM ended the request with an error")
            elif output.finished:
                usage = Usage(len(output.prompt_token_ids or ()), generated, output.num_cached_tokens)
                yield Done(answer.finish_reason or "", usage)

    def close(self) -> None:
        """Stop the engine and whatever is left of its processes."""
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None
        end([process.pid for process in self._processes if process.is_running()])
        self._processes = []
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None

    def _arguments(self) -> dict[str, Any]:
        """What the engine is told beside the model's folder."""
        chosen = {
            "dtype": self.options.dtype,
            "max_model_len": self.options.max_model_len,
            "max_num_seqs": self.options.max_num_seqs,
            "enforce_eager": self.options.enforce_eager,
            "enable_prefix_caching": self.options.prefix_caching,
            **self.options.engine_args,
        }
        return {name: value for name, value in chosen.items() if value is not None}


def _require_vllm() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise fairmark.InputError(
            "the vllm SUT needs vLLM, which is not installed here",
            source="--sut",
            value="vllm",
            accepted="vLLM in the environment of fairmark, as docs/vllm.md says; or --sut vllm-serve",
        )


def _token_ids(tokenizer: Any, sample: Sample) -> list[int]:
    if sample.token_ids is not None:
        return list(sample.token_ids)
    if isinstance(sample.prompt, str):
        return list(tokenizer.encode(sample.prompt))
    if sample.prompt is None:
        raise fairmark.InputError("has no prompt", field=f"sample {sample.index}")
    if not tokenizer.chat_template:
        raise fairmark.InputError(
            "the model has no chat template for messages", field="samples.input", accepted="text, token_ids"
        )
    messages = [dict(message) for message in sample.prompt]
    return list(tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))


def _sampling(asked: Any) -> Any:
    """What a scenario asks of the model, as vLLM takes it; tokens come as they are made."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=asked.temperature,
        top_p=1.0 if asked.top_p is None else asked.top_p,
        seed=asked.seed,
        stop=list(asked.stop),
        max_tokens=asked.max_output_tokens,
        ignore_eos=asked.ignore_eos,
        output_kind=RequestOutputKind.DELTA,
    )


def _accelerator() -> str:
    from vllm.platforms import current_platform

    kind = str(current_platform.device_type)
    return kind if kind == "cpu" else str(current_platform.get_device_name())
