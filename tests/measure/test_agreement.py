"""The shipped references and target, against real answers of a real model, served rightly and wrongly."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import pytest

from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import table
from fairmark.measure.accuracy import score

TARGET = 0.48
TOKENS = 16
HONEST = ("honest", "honest, again", "honest, 4 at once")
WRONG = (
    "weights: step noise 1 %",
    "weights: step noise 5 %",
    "weights: 3 bits",
    "weights: 2 bits",
    "weights: a layer skipped",
    "no chat template",
    "another system prompt",
    "temperature 1",
    "cut to half the tokens",
    "cut to 3/4 of the tokens",
)


@pytest.fixture(scope="module")
def answers() -> Mapping[str, Sequence[str]]:
    text = (Path(__file__).parent / "agreement" / "answers-16.jsonl").read_text(encoding="utf-8")
    return {row["way"]: row["answers"] for row in map(json.loads, text.splitlines())}


def agreement(texts: Sequence[str]) -> float:
    seqs = list(range(len(texts)))
    evidence = Evidence(
        queries=table(
            "queries",
            {
                "seq": seqs,
                "sample_index": seqs,
                "phase": ["accuracy"] * len(seqs),
                "issued_ns": seqs,
                "completed_ns": seqs,
            },
        ),
        outputs=table("outputs", {"seq": seqs, "text": list(texts)}),
        **{name: table(name, {}) for name in ("samples", "events", "plan", "health", "telemetry")},
        workers=[],
        environment={},
    )
    scenario = {
        "samples": {},
        "generation": {"max_output_tokens": TOKENS},
        "accuracy": {"scorer": "reference-agreement", "target": TARGET, "judged": ["accuracy"]},
    }
    references = resources.files("fairmark.scenarios").joinpath("references", "smollm2-135m-gsm8k.jsonl")
    result = score(evidence, {"scenario": scenario}, references.read_bytes(), phases=["accuracy"])["accuracy"]
    assert result["n"] == len(texts)
    return float(result["score"])


def test_the_answers_are_those_of_the_measurement(answers: Mapping[str, Sequence[str]]) -> None:
    assert set(answers) == {*HONEST, *WRONG, "answers shifted by one"}
    assert {len(texts) for texts in answers.values()} == {64}


@pytest.mark.parametrize("way", HONEST)
def test_honest_serving_reaches_the_target(answers: Mapping[str, Sequence[str]], way: str) -> None:
    assert agreement(answers[way]) >= TARGET


@pytest.mark.parametrize("way", WRONG)
def test_wrong_serving_stays_far_below_it(answers: Mapping[str, Sequence[str]], way: str) -> None:
    assert agreement(answers[way]) <= TARGET - 0.13


def test_swapped_prompts_stay_far_below_it(answers: Mapping[str, Sequence[str]]) -> None:
    honest = answers["honest"]
    assert agreement([*honest[1:], honest[0]]) <= 1 / 64  # two neighbours begin alike
    half = [*honest[:32], *honest[33:], honest[32]]
    assert agreement(half) < TARGET


def test_two_failures_in_five_are_enough_to_miss_it(answers: Mapping[str, Sequence[str]]) -> None:
    texts = ["" if i % 5 < 2 else text for i, text in enumerate(answers["honest"])]
    assert agreement(texts) < TARGET
