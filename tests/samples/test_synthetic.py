"""Prompts made to a recorded length, and answers limited to one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from fairmark.errors import InputError
from fairmark.samples.library import load_library
from fairmark.samples.synthetic import _WORDS, prompt_of_length
from fairmark.scenario.model import Generation, Samples


def test_a_prompt_has_its_number_of_words_and_is_the_hash_it_says() -> None:
    assert len(set(_WORDS)) == 256
    text = prompt_of_length(7, 70)
    blocks = [hashlib.sha256(f"fairmark/prompt/1 7 {n}".encode()).digest() for n in range(3)]
    assert text.split() == [_WORDS[byte] for byte in b"".join(blocks)[:70]]
    assert prompt_of_length(7, 40) == " ".join(text.split()[:40])


def test_no_two_prompts_begin_alike() -> None:
    assert len({prompt_of_length(index, 4) for index in range(2000)}) == 2000


def load(tmp_path: Path, rows: list[object], cap: int | None = None):
    path = tmp_path / "lengths.jsonl"
    path.write_text("".join(json.dumps({"in": a, "out": b}) + "\n" for a, b in rows))
    spec = Samples(str(path), "in", "length", output_tokens="out")
    return load_library(spec, Generation(max_output_tokens=cap), base=tmp_path)


def test_lengths_become_prompts_and_limits(tmp_path: Path) -> None:
    library = load(tmp_path, [(5, 9), ("12", "700")], cap=256)
    samples = [library.sample(index) for index in range(2)]
    assert [len(str(s.prompt).split()) for s in samples] == [5, 12]
    assert [s.generation.max_output_tokens for s in samples] == [9, 256]
    assert load(tmp_path, [(5, 9), (12, 700)]).sample(1).generation.max_output_tokens == 700


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "x", "", None, [3]])
def test_what_is_no_length_is_refused(tmp_path: Path, bad: object) -> None:
    with pytest.raises(InputError, match=r"row 1 of .* has a prompt of the wrong kind"):
        load(tmp_path, [(bad, 4)])
    with pytest.raises(InputError, match=r"row 1 of .* has no number of tokens in column 'out'"):
        load(tmp_path, [(4, bad)])
