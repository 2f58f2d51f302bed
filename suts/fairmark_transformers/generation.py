"""Text generation: ``generate`` of transformers, and a look at every token as it comes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairmark import Chunk, Done, Sample, Usage
from fairmark_transformers.batching import Answering, Request
from fairmark_transformers.text import AnswerText

__all__ = ["Generation"]


class Generation:
    """A causal language model.

    Args:
        model, tokenizer: as transformers loads them; the tokenizer is a fast one.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        from transformers import GenerationConfig

        self._model = model
        self._tokenizer = tokenizer
        self._ends = _end_tokens(model, tokenizer)
        self._context_tokens: int | None = getattr(
            model.config.get_text_config(), "max_position_embeddings", None
        )
        pad = tokenizer.pad_token_id
        self._pad = pad if pad is not None else min(self._ends, default=0)
        # A checkpoint's own sampling defaults would be added to what the scenario asks for.
        model.generation_config = GenerationConfig(pad_token_id=self._pad)

    def tokenise(self, sample: Sample) -> Sequence[int]:
        """The prompt's tokens, through the chat template where it is a list of messages.

        Raises:
            ValueError: there is no prompt or no template for it, or prompt and answer exceed the context.
        """
        ids = self._prompt(sample)
        asked = sample.generation.max_output_tokens
        if self._context_tokens is not None and len(ids) + (asked or 1) > self._context_tokens:
            raise ValueError(
                f"{len(ids)} prompt tokens and {asked or 1} of output exceed the context of "
                f"{self._context_tokens}"
            )
        return ids

    def answer(self, batch: Sequence[Request], wanted: Answering) -> None:
        """Generate for the whole batch at once; every token is reported when the device has made it.

        Where a long prompt and a long answer of different rows exceed the context together, it is answered
        in parts.
        """
        for part in self._parts(batch):
            self._answer(part, wanted)

    def _answer(self, batch: Sequence[Request], wanted: Answering) -> None:
        import torch
        from transformers import StoppingCriteriaList

        # All samples of a run ask for the same, but for the length.
        asked = batch[0].sample.generation
        limits = self._limits(batch)
        rows = [
            _Row(request, self._tokenizer, self._ends, limit)
            for request, limit in zip(batch, limits, strict=True)
        ]
        if asked.seed is not None:
            torch.manual_seed(asked.seed)
        with torch.inference_mode():
            self._generate(
                [request.token_ids for request in batch],
                max(limits),
                StoppingCriteriaList([_watch(rows, wanted)]),
                **_sampling(asked),
            )

    def warm_up(self, length: int, size: int) -> None:
        """Run one prefill of ``size`` prompts of ``length`` tokens, and one step."""
        import torch

        with torch.inference_mode():
            self._generate([[self._pad] * length] * size, 2, None, do_sample=False)

    def _prompt(self, sample: Sample) -> list[int]:
        if sample.token_ids is not None:
            return list(sample.token_ids)
        if isinstance(sample.prompt, str):
            return list(self._tokenizer(sample.prompt)["input_ids"])
        if sample.prompt is None:
            raise ValueError('there is no prompt; a language model needs samples.input other than "data"')
        if not self._tokenizer.chat_template:
            raise ValueError('the model has no chat template; it needs samples.input = "text"')
        rendered = self._tokenizer.apply_chat_template(
            list(sample.prompt), add_generation_prompt=True, return_dict=True
        )
        return list(rendered["input_ids"])

    def _parts(self, batch: Sequence[Request]) -> list[list[Request]]:
        """The batch in order, cut so that the longest prompt leaves room for the longest answer of a part.

        A row that has ended is carried on with padding, at positions that a model may not have.
        """
        parts: list[list[Request]] = []
        for request in batch:
            if parts and self._fits([*parts[-1], request]):
                parts[-1].append(request)
            else:
                parts.append([request])
        return parts

    def _fits(self, batch: Sequence[Request]) -> bool:
        if self._context_tokens is None:
            return True
        return _longest_prompt(batch) + max(self._limits(batch)) <= self._context_tokens

    def _limits(self, batch: Sequence[Request]) -> list[int]:
        """How many tokens each row may have; without a limit of its own, what the longest prompt leaves."""
        asked = [request.sample.generation.max_output_tokens for request in batch]
        if self._context_tokens is None:
            if None in asked:
                raise ValueError("the model states no context length: set generation.max_output_tokens")
            return [limit for limit in asked if limit is not None]
        room = self._context_tokens - _longest_prompt(batch)
        return [room if limit is None else limit for limit in asked]

    def _generate(self, prompts: Sequence[Sequence[int]], limit: int, watch: Any, **sampling: Any) -> None:
        """Left-padded: the next token follows the last of every row."""
        import torch

        longest = max(map(len, prompts))
        ids = torch.tensor([[self._pad] * (longest - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
        device = self._model.device
        self._model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            max_new_tokens=limit,
            stopping_criteria=watch,
            **sampling,
        )


class _Row:
    """One answer of a batch."""

    def __init__(self, request: Request, tokenizer: Any, ends: frozenset[int], limit: int) -> None:
        asked = request.sample.generation
        self._request = request
        self._text = AnswerText(tokenizer.backend_tokenizer, asked.stop)
        self._ends: frozenset[int] = frozenset() if asked.ignore_eos else ends
        self._limit = limit
        self._count = 0

    @property
    def ended(self) -> bool:
        """Whether its last token has come."""
        return self._request.ended

    def take(self, token: int) -> None:
        """Report ``token``. It may end the answer: by itself, by completing a stop string, or as the last."""
        self._count += 1
        ends = token in self._ends
        piece = "" if ends else self._text.add(token)
        stopped = ends or self._text.stopped
        ended = stopped or self._count == self._limit
        if ended:
            piece += self._text.finish()
        self._request.chunk(Chunk(piece, token_ids=(token,)))
        if ended:
            usage = Usage(len(self._request.token_ids), self._count, cached_tokens=0)
            self._request.end(Done("stop" if stopped else "length", usage))


def _longest_prompt(batch: Sequence[Request]) -> int:
    return max(len(request.token_ids) for request in batch)


def _watch(rows: Sequence[_Row], wanted: Answering) -> Any:
    """What ``generate`` asks after every step: which rows are done. It sees the tokens first.

    Reading them waits for the device, so that a token is reported when it exists and not when its kernel was
    queued.
    """
    import torch
    from transformers import StoppingCriteria

    class Watch(StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
            for row, token in zip(rows, input_ids[:, -1].tolist(), strict=True):
                if not row.ended:
                    row.take(token)
            stop = not wanted()
            return torch.tensor([stop or row.ended for row in rows], device=input_ids.device)

    return Watch()


def _sampling(asked: Any) -> dict[str, Any]:
    """What the scenario asks for, and nothing else: greedy at temperature 0."""
    if asked.temperature == 0:
        return {"do_sample": False}
    return {
        "do_sample": True,
        "temperature": asked.temperature,
        "top_p": 1.0 if asked.top_p is None else asked.top_p,
        "top_k": 0,
    }


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The tokens that end an answer: those of the checkpoint, and the tokenizer's."""
    listed = model.generation_config.eos_token_id
    ids = listed if isinstance(listed, (list, tuple)) else [listed]
    return frozenset(i for i in (*ids, tokenizer.eos_token_id) if i is not None)
