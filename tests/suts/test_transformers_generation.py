"""Generation by the real library with a tiny model: every token as it comes, and nothing but the answer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairmark import Chunk, Done, Event, Failed, InputError, Sample, SutError, Usage
from fairmark.scenario.model import Generation
from fairmark_transformers import TransformersSUT

pytestmark = pytest.mark.real

ASKED = Generation(max_output_tokens=12)
Open = Callable[..., TransformersSUT]


@pytest.fixture
def opened(language_model: Path) -> Iterator[Open]:
    """Opens the SUT on the tiny model, or on another one."""
    suts: list[TransformersSUT] = []

    def open_sut(model: Path = language_model, **options: Any) -> TransformersSUT:
        sut = TransformersSUT(TransformersSUT.Options(model=str(model), threads=1, **options))
        suts.append(sut)
        sut.open()
        return sut

    yield open_sut
    for sut in suts:
        sut.close()


def samples(texts: Sequence[str], generation: Generation = ASKED) -> list[Sample]:
    return [Sample(i, {}, [{"role": "user", "content": t}], generation) for i, t in enumerate(texts)]


def answers(sut: TransformersSUT, asked: Sequence[Sample]) -> list[list[Event]]:
    found: list[list[Event]] = [[] for _ in asked]
    for position, event in sut.infer(asked):
        found[position].append(event)
    return found


def ids(events: Sequence[Event]) -> list[int]:
    return [i for event in events if isinstance(event, Chunk) for i in event.token_ids or ()]


def text(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Chunk))


def reference(transformers: Any, folder: Path, sample: Sample, **options: Any) -> list[int]:
    """The new tokens of the library's own ``generate``, one prompt by itself."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer.apply_chat_template(
        list(sample.prompt or ()), add_generation_prompt=True, return_dict=True, return_tensors="pt"
    )
    made = model.generate(**inputs, do_sample=False, max_new_tokens=12, **options)
    return list(made[0, inputs["input_ids"].shape[1] :].tolist())


TEXTS = ["What is 3 plus 4?", "Who?", "What is 12 plus 7? Think well. Think well.", "Say: héllo wörld 😀"]


def test_batches_with_padding_give_what_each_prompt_gives_by_itself(
    transformers: Any, language_model: Path, tokenizer: Any, opened: Open
) -> None:
    asked = samples(TEXTS)
    for sample, events in zip(asked, answers(opened(max_batch=4), asked), strict=True):
        expected = reference(transformers, language_model, sample)
        assert ids(events) == expected
        assert text(events) == tokenizer.decode(expected, skip_special_tokens=True)
        *chunks, done = events
        assert [len(chunk.token_ids) for chunk in chunks] == [1] * len(expected)
        prompt = tokenizer.apply_chat_template(list(sample.prompt or ()), add_generation_prompt=True)
        ends = expected[-1] == tokenizer.eos_token_id
        assert done == Done(
            "stop" if ends else "length", Usage(len(prompt["input_ids"]), len(expected), cached_tokens=0)
        )


@pytest.fixture
def early_ending(transformers: Any, language_model: Path, tmp_path: Path) -> tuple[Path, int]:
    """The model with the fourth token of its first answer made an end token, and that token."""
    token = reference(transformers, language_model, samples(TEXTS)[0], eos_token_id=-1)[3]
    folder = Path(shutil.copytree(language_model, tmp_path / "ending"))
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "eos_token_id": [1, token]}))
    return folder, token


def test_an_end_token_ends_its_row_and_only_its_row(
    tokenizer: Any, opened: Open, early_ending: tuple[Path, int]
) -> None:
    folder, token = early_ending
    first, *others = answers(opened(folder, max_batch=4), samples(TEXTS))
    assert len(ids(first)) <= 4
    assert ids(first)[-1] == token
    assert text(first) == tokenizer.decode(ids(first)[:-1], skip_special_tokens=True)
    assert isinstance(first[-1], Done)
    assert first[-1].finish_reason == "stop"
    for events in others:
        made = ids(events)
        assert token not in made[:-1]
        assert isinstance(events[-1], Done)
        ended = made[-1] in (token, tokenizer.eos_token_id)
        assert events[-1].finish_reason == ("stop" if ended else "length")
        assert ended or len(made) == 12


def test_ignore_eos_goes_on_to_the_limit(opened: Open, early_ending: tuple[Path, int]) -> None:
    asked = samples(TEXTS, Generation(max_output_tokens=12, ignore_eos=True))
    for events in answers(opened(early_ending[0]), asked):
        assert len(ids(events)) == 12
        assert isinstance(events[-1], Done)
        assert events[-1].finish_reason == "length"


def test_each_row_ends_at_its_own_limit(opened: Open) -> None:
    free = answers(opened(), samples(TEXTS, Generation(max_output_tokens=12, ignore_eos=True)))
    limits = (3, 12, 1, 7)
    asked = [
        replace(sample, generation=Generation(max_output_tokens=limit, ignore_eos=True))
        for sample, limit in zip(samples(TEXTS), limits, strict=True)
    ]
    for events, whole, limit in zip(answers(opened(max_batch=4), asked), free, limits, strict=True):
        assert ids(events) == ids(whole)[:limit]
        assert isinstance(events[-1], Done)
        assert events[-1].finish_reason == "length"


def test_a_long_prompt_and_a_long_answer_that_exceed_the_context_together_are_both_answered(
    transformers: Any, tokenizer: Any, opened: Open, tmp_path: Path
) -> None:
    config = transformers.GPT2Config(
        vocab_size=384, n_positions=48, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    lengths = ((44, 4), (4, 40), (40, 8))
    asked = [
        Sample(i, {}, None, Generation(max_output_tokens=limit, ignore_eos=True), token_ids=[5] * prompt)
        for i, (prompt, limit) in enumerate(lengths)
    ]
    for events, (prompt, limit) in zip(answers(opened(tmp_path, max_batch=4), asked), lengths, strict=True):
        assert events[-1] == Done("length", Usage(prompt, limit, cached_tokens=0))


def test_one_token_is_an_answer(opened: Open) -> None:
    (events,) = answers(opened(), samples(TEXTS[:1], Generation(max_output_tokens=1, ignore_eos=True)))
    assert [type(event) for event in events] == [Chunk, Done]


def test_a_stop_string_ends_the_text_before_it(opened: Open) -> None:
    sut = opened()
    free = Generation(max_output_tokens=12, ignore_eos=True)
    (whole,) = answers(sut, samples(TEXTS[:1], free))
    # Two characters from the middle, so that they may be spread over tokens.
    middle = len(text(whole)) // 2
    stop = text(whole)[middle : middle + 2]
    asked = Generation(max_output_tokens=12, ignore_eos=True, stop=(stop, "never"))
    (events,) = answers(sut, samples(TEXTS[:1], asked))
    assert text(events) == text(whole).partition(stop)[0]
    assert isinstance(events[-1], Done)
    assert events[-1].finish_reason == "stop"
    assert ids(events) == ids(whole)[: len(ids(events))]
    assert len(ids(events)) < 12


def test_sampling_follows_the_seed(opened: Open) -> None:
    sut = opened()

    def sampled(seed: int) -> list[int]:
        asked = Generation(max_output_tokens=12, temperature=1.0, top_p=0.9, seed=seed, ignore_eos=True)
        return ids(answers(sut, samples(TEXTS[:1], asked))[0])

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)


def test_token_ids_and_plain_text_are_taken_as_they_are(tokenizer: Any, opened: Open) -> None:
    sut = opened()
    prompt = "What is 3 plus 4?"
    given = tuple(tokenizer(prompt)["input_ids"])
    asked = [
        Sample(0, {}, prompt, ASKED),
        Sample(1, {}, None, ASKED, token_ids=given),
    ]
    plain, tokens = answers(sut, asked)
    assert ids(plain) == ids(tokens)
    assert isinstance(plain[-1], Done)
    assert plain[-1].usage is not None
    assert plain[-1].usage.input_tokens == len(given)


def test_what_exceeds_the_context_fails_and_the_rest_is_answered(opened: Open) -> None:
    sut = opened()
    long, short = samples(["Think well. " * 40, "Who?"])
    with pytest.raises(InputError, match=r"sample 0: .* exceed the context of 128"):
        sut.load([long, short])
    failed, fine = answers(sut, [long, short])
    assert [type(event) for event in failed] == [Failed]
    assert isinstance(fine[-1], Done)


def test_a_model_without_a_template_refuses_messages_before_the_run(
    language_model: Path, opened: Open, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(language_model, tmp_path / "plain"))
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(InputError, match=r'no chat template; it needs samples.input = "text"'):
        opened(folder).load(samples(TEXTS))


def test_missing_weights_are_not_replaced_by_random_ones(opened: Open) -> None:
    with pytest.raises(SutError, match=r"tiny-llama lacks weights for text-classification: score.weight"):
        opened(task="text-classification")


@pytest.mark.parametrize("option", [{"device": "vulkan"}, {"attention": "imaginary"}])
def test_a_device_or_kernel_that_is_not_there_is_said(opened: Open, option: dict[str, str]) -> None:
    with pytest.raises(SutError, match=r"tiny-llama cannot be loaded: "):
        opened(**option)


def test_it_says_what_it_is(language_model: Path, opened: Open) -> None:
    import hashlib

    claims = opened(dtype="bfloat16", attention="eager", max_batch=3).describe()
    weights = (language_model / "model.safetensors").read_bytes()
    assert claims["weights_sha256"] == hashlib.sha256(weights).hexdigest()
    asked = {
        "model": "tiny-llama",
        "precision": "bfloat16",
        "attention": "eager",
        "max_batch": 3,
        "threads": 1,
    }
    assert {name: claims[name] for name in asked} == asked
    assert claims["parameters"] == 110_912
    assert claims["accelerator"] == "cpu"
    json.dumps(claims)


def test_a_hub_model_is_read_from_the_cache_at_its_commit(
    language_model: Path, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    commit = "0" * 39 + "1"
    cache = tmp_path / "hub"
    shutil.copytree(language_model, cache / "models--acme--tiny" / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    claims = opened(Path("acme/tiny"), revision=commit).describe()
    assert (claims["model"], claims["revision"]) == ("acme/tiny", commit)
    with pytest.raises(InputError, match="is required by a hub model"):
        opened(Path("acme/tiny"))
    with pytest.raises(InputError, match="is neither a path nor a model that the hub gives"):
        opened(Path("acme/tiny"), revision="2" * 40)
