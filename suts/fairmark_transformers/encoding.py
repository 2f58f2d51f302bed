"""Tasks whose answers are not tokens: embeddings and text classification, one forward pass a batch.

The answer is the ``data`` of its `Done`. An embedding is its components as little-endian float32, of length
1. A classification is a JSON object with the most likely ``label`` and its probability ``score``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

from fairmark import Done, Sample
from fairmark_transformers.batching import Answering, Request

__all__ = ["Classification", "Embedding", "Encoding", "Pooling"]

Pooling = Literal["mean", "cls"]


class Encoding:
    """An encoder that reads text from a column of the samples.

    Args:
        column: the column that holds the text; None takes the only one.
    """

    def __init__(self, model: Any, tokenizer: Any, column: str | None) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._column = column
        self._longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)

    def tokenise(self, sample: Sample) -> Sequence[int]:
        """The text's tokens.

        Raises:
            ValueError: there is no such column or no text in it, or the model cannot take so many tokens.
        """
        ids = list(self._tokenizer(self._text(sample))["input_ids"])
        if len(ids) > self._longest:
            raise ValueError(f"the text has {len(ids)} tokens; the model takes {self._longest}")
        return ids

    def answer(self, batch: Sequence[Request], wanted: Answering) -> None:
        """Encode the batch; answers are reported once they have left the device."""
        for request, data in zip(batch, self._encode([r.token_ids for r in batch]), strict=True):
            request.end(Done(data=data))

    def warm_up(self, length: int, size: int) -> None:
        """Encode ``size`` texts of ``length`` tokens."""
        self._encode([[self._tokenizer.pad_token_id or 0] * length] * size)

    def results(self, output: Any, mask: Any) -> list[bytes]:
        """The answers in a model's ``output``; ``mask`` (rows, tokens) marks what is not padding."""
        raise NotImplementedError

    def _encode(self, texts: Sequence[Sequence[int]]) -> list[bytes]:
        import torch

        padded = self._tokenizer.pad({"input_ids": [list(ids) for ids in texts]}, return_tensors="pt")
        inputs = {name: values.to(self._model.device) for name, values in padded.items()}
        with torch.inference_mode():
            return self.results(self._model(**inputs), inputs["attention_mask"])

    def _text(self, sample: Sample) -> str:
        if isinstance(sample.prompt, str):
            return sample.prompt
        columns = sorted(sample.data)
        column = columns[0] if self._column is None and len(columns) == 1 else self._column
        text = None if column is None else sample.data.get(column)
        if not isinstance(text, str):
            raise ValueError(
                f"column {column!r} holds no text; name one with -o column=…: {', '.join(columns)}"
            )
        return text


class Embedding(Encoding):
    """Sentence embeddings: the last hidden state, pooled over the tokens and scaled to length 1."""

    def __init__(self, model: Any, tokenizer: Any, column: str | None, pooling: Pooling) -> None:
        super().__init__(model, tokenizer, column)
        self._pooling = pooling

    def results(self, output: Any, mask: Any) -> list[bytes]:
        """One vector a row."""
        import torch

        states = output.last_hidden_state.float()
        if self._pooling == "mean":
            weights = mask.unsqueeze(-1).float()
            pooled = (states * weights).sum(1) / weights.sum(1)
        else:
            pooled = states[:, 0]
        vectors = torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
        return [vector.astype("<f4").tobytes() for vector in vectors]


class Classification(Encoding):
    """Text classification by the softmax of the model's logits."""

    def results(self, output: Any, mask: Any) -> list[bytes]:
        """One label a row."""
        scores, labels = output.logits.float().softmax(-1).max(-1)
        names = self._model.config.id2label
        return [
            json.dumps({"label": names[label], "score": score}).encode()
            for label, score in zip(labels.tolist(), scores.tolist(), strict=True)
        ]
