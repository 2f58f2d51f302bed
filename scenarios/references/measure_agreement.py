"""Measure what the scorer ``reference-agreement`` must separate: honest serving from wrong serving.

Serves the GGUF, and copies of it with damaged weights, with llama.cpp (package ``xllamacpp``), asks the
first questions in several right and wrong ways, and prints every candidate score of every way. The
figures in ``README.md`` are its output. Needs xllamacpp, gguf and fairmark:

    python measure_agreement.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --rows 64 --tokens 16 \
        --samples ../../harness/fairmark/samples/data/gsm8k-test.jsonl --references smollm2-135m-gsm8k.jsonl
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from fairmark.measure import scorers
from fairmark.samples.references import parse_references

SEED = 20240229


def common_prefix(output: str, reference: str) -> float:
    """Words that both texts begin with, as a share of the longer text's words."""
    ours, theirs = scorers.words(output), scorers.words(reference)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    return shared / max(len(ours), len(theirs), 1)


def first_8(output: str, reference: str) -> float:
    """1 if the first 8 words are the same, else 0."""
    return float(scorers.words(output)[:8] == scorers.words(reference)[:8])


CANDIDATES: Mapping[str, Callable[[str, str], float]] = {
    "whole text": scorers.same_words,
    "first 8 words": first_8,
    "common prefix": common_prefix,
    "ROUGE-L": scorers.rouge_l,
}


@dataclass(frozen=True)
class Way:
    """One way to answer the questions: changed weights, a changed request, or a changed pairing."""

    name: str
    damage: Callable[[Any, np.random.Generator], None] | None = None
    request: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None
    raw: bool = False
    shift: int = 0
    slots: int = 1
    share: float = 1.0
    """Of the tokens that were asked for."""


def _scale_blocks(relative: float) -> Callable[[Any, np.random.Generator], None]:
    """Multiply every Q4_1 block's step by 1 + N(0, relative)."""

    def damage(tensor: Any, rng: np.random.Generator) -> None:
        steps = _blocks(tensor)[:, 0:2].view(np.float16)
        steps *= (1 + relative * rng.standard_normal(steps.shape)).astype(np.float16)

    return damage


def _drop_bits(count: int) -> Callable[[Any, np.random.Generator], None]:
    """Quantise every 4-bit weight to ``4 - count`` bits, to the middle of what the dropped bits span."""
    kept = 0xF >> count << count
    middle = (2**count - 1) / 2

    def damage(tensor: Any, rng: np.random.Generator) -> None:
        blocks = _blocks(tensor)
        blocks[:, 4:] &= np.uint8(kept << 4 | kept)
        step, minimum = blocks[:, 0:2].view(np.float16), blocks[:, 2:4].view(np.float16)
        minimum += (middle * step).astype(np.float16)

    return damage


def _skip_layer(layer: int) -> Callable[[Any, np.random.Generator], None]:
    """Make one layer's attention and feed-forward add nothing, so that it passes its input on."""

    def damage(tensor: Any, rng: np.random.Generator) -> None:
        if tensor.name.startswith(f"blk.{layer}.") and tensor.name.endswith(
            ("ffn_down.weight", "attn_output.weight")
        ):
            _blocks(tensor)[:] = 0

    return damage


def _blocks(tensor: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A Q4_1 tensor's blocks: float16 step, float16 minimum, 16 bytes of two 4-bit weights each."""
    return tensor.data.reshape(-1, 20)


WAYS: Sequence[Way] = (
    Way("honest"),
    Way("honest, again"),
    Way("honest, 4 at once", slots=4),
    Way("weights: step noise 1 %", _scale_blocks(0.01)),
    Way("weights: step noise 5 %", _scale_blocks(0.05)),
    Way("weights: 3 bits", _drop_bits(1)),
    Way("weights: 2 bits", _drop_bits(2)),
    Way("weights: a layer skipped", _skip_layer(15)),
    Way("no chat template", raw=True),
    Way("another system prompt", system="Answer briefly."),
    Way("temperature 1", request={"temperature": 1.0}),
    Way("cut to half the tokens", share=0.5),
    Way("cut to 3/4 of the tokens", share=0.75),
    Way("answers shifted by one", shift=1),
)


@contextmanager
def served(gguf: Path, slots: int) -> Iterator[str]:
    """A llama.cpp server for one model file; gives its address."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx, params.n_parallel = 2048 * slots, slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    server = xllamacpp.Server(params)
    try:
        yield server.listening_address
    finally:
        del server


@contextmanager
def weights(gguf: Path, way: Way) -> Iterator[Path]:
    """The model file, or a damaged copy of it."""
    if way.damage is None:
        yield gguf
        return
    from gguf import GGMLQuantizationType, GGUFReader

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / gguf.name
        shutil.copyfile(gguf, copy)
        reader, rng = GGUFReader(copy, "r+"), np.random.default_rng(SEED)
        for tensor in reader.tensors:
            if tensor.tensor_type == GGMLQuantizationType.Q4_1:
                way.damage(tensor, rng)
        reader.data.flush()
        yield copy


def ask(address: str, number: int, question: str, way: Way, tokens: int) -> str:
    """One question, one answer. The seed differs by question: an equal draw for all would be no sampling."""
    body: dict[str, Any] = {
        "temperature": 0.0,
        "seed": SEED + number,
        "max_tokens": int(tokens * way.share),
        **way.request,
    }
    if way.raw:
        path, body["prompt"] = "/v1/completions", question
    else:
        path = "/v1/chat/completions"
        system = [{"role": "system", "content": way.system}] if way.system else []
        body["messages"] = [*system, {"role": "user", "content": question}]
    request = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        choice = json.load(response)["choices"][0]
    return str(choice["text"] if way.raw else choice["message"]["content"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Scores of right and wrong ways to serve the model.")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True)
    parser.add_argument("--references", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=16, help="max_tokens of every request")
    parser.add_argument("--ways", help="only the ways whose name contains this")
    parser.add_argument("--keep", type=Path, help="keep the answers here, as JSON Lines")
    arguments = parser.parse_args()
    lines = arguments.samples.read_text(encoding="utf-8").splitlines()[: arguments.rows]
    questions = [json.loads(line)["question"] for line in lines]
    known = parse_references(arguments.references.read_bytes())
    references = [known[index].first(arguments.tokens) for index in range(len(questions))]
    print("| way |", " | ".join(CANDIDATES), "|")
    print("|---|" + "---|" * len(CANDIDATES))
    for way in WAYS:
        if arguments.ways and arguments.ways not in way.name:
            continue
        with weights(arguments.gguf, way) as model, served(model, way.slots) as address:
            one = partial(ask, address, way=way, tokens=arguments.tokens)
            with ThreadPoolExecutor(way.slots) as pool:
                answers = list(pool.map(one, range(len(questions)), questions))
        paired = references[way.shift :] + references[: way.shift]
        cells = []
        for score in CANDIDATES.values():
            values = [score(a, r) for a, r in zip(answers, paired, strict=True)]
            cells.append(
                f"{statistics.fmean(values):.3f} ± {statistics.stdev(values) / len(values) ** 0.5:.3f}"
            )
        print(f"| {way.name} |", " | ".join(cells), "|", flush=True)
        if arguments.keep:
            with arguments.keep.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"way": way.name, "answers": answers}) + "\n")


if __name__ == "__main__":
    main()
