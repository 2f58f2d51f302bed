"""Scores by hand, failures as zeros, intervals that cover, and what has no score."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fairmark.errors import InputError
from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import table
from fairmark.measure.accuracy import check_scorer, score
from fairmark.measure.scorers import (
    SCORERS,
    exact_match,
    final_number,
    rouge_l,
    same_final_number,
    same_words,
)
from fairmark.scenario.model import Accuracy, Generation, Samples

ANSWERS = ["so it is\n#### 18", "#### 3", "#### 70,000", "#### -5"]
OUTPUTS = ["It is\n#### 18", "The answer is 4.", "That makes $70,000.00 in all", "x = -5"]
REFERENCES = b"".join(
    json.dumps({"index": i, "text": text}).encode() + b"\n"
    for i, text in enumerate(["one two three four", "five six", "seven", "eight nine"])
)


def evidence(
    outputs: Sequence[str | None],
    indices: Sequence[int] | None = None,
    *,
    phase: str = "accuracy",
    answers: Sequence[Any] = ANSWERS,
) -> Evidence:
    """One query per output, in reverse in the outputs table; None is a failed query."""
    seqs = list(range(100, 100 + len(outputs)))
    queries = table(
        "queries",
        {
            "seq": seqs,
            "phase": [phase] * len(seqs),
            "sample_index": list(range(len(seqs)) if indices is None else indices),
            "issued_ns": seqs,
            "completed_ns": [seq + 1 for seq in seqs],
            "failure": ["truncated" if text is None else None for text in outputs],
        },
    )
    rows = [json.dumps({"answer": a, "question": "q"}, separators=(",", ":")) for a in answers]
    return Evidence(
        queries=queries,
        # A failed query may have left a text; it must not earn anything.
        outputs=table(
            "outputs",
            {"seq": seqs[::-1], "text": ["one two three four" if t is None else t for t in outputs][::-1]},
        ),
        samples=table("samples", {"index": list(range(len(rows))), "row": rows}),
        events=table("events", {}),
        plan=table("plan", {}),
        health=table("health", {}),
        telemetry=table("telemetry", {}),
        workers=[],
        environment={},
    )


def facts(scorer: str, *, max_output_tokens: int | None = 256, **accuracy: Any) -> dict[str, Any]:
    return {
        "scenario": {
            "samples": {"reference": "answer"},
            "generation": {"max_output_tokens": max_output_tokens},
            "accuracy": {"scorer": scorer, "target": 0.5, "judged": ["accuracy"], **accuracy},
        }
    }


class TestScores:
    @pytest.mark.parametrize(
        ("output", "reference", "same"),
        [
            ("a b c", "a b c", 1),
            ("a  b\nc ", "a b c", 1),  # white space is not content
            ("a b", "a b c", 0),  # cut short
            ("a b c d", "a b c", 0),  # too long
            ("b a c", "a b c", 0),
            ("a b c", "a b C", 0),
            ("$48,000.", "$48,001.", 0),
            ("ab", "a b", 0),
            ("", "", 1),
            ("", "a", 0),
        ],
    )
    def test_same_words(self, output: str, reference: str, same: int) -> None:
        assert same_words(output, reference) == same_words(reference, output) == same

    @given(st.text())
    def test_a_text_has_its_own_words(self, text: str) -> None:
        assert same_words(text, text) == 1
        assert same_words(f" {text}\n", text) == 1
        assert same_words(f"{text} more", text) == 0

    def test_rouge_l_by_hand(self) -> None:
        # Lin 2004, section 3.1: "police kill the gunman" has 3 of 4 words of the reference in order.
        assert rouge_l("police kill the gunman", "police killed the gunman") == pytest.approx(0.75)
        assert rouge_l("the gunman kill police", "police killed the gunman") == pytest.approx(0.5)

    def test_exact_match_ignores_the_white_space_around(self) -> None:
        assert exact_match(" a b\n", "a b") == 1
        assert exact_match("a  b", "a b") == 0

    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("<<16-3-4=9>>9 eggs\n#### 18", 18),
            ("#### 1,234.50 and 7", 1234.5),
            ("#### 1\n#### 2", 2),
            ("costs $70,000.", 70000),
            ("5-3", 3),
            ("5 - 3 = -2", -2),
            ("(1)-4", 4),
            ("1, 2", 2),
            ("12,34", 34),
            ("none", None),
            ("18 ####", None),
            ("", None),
        ],
    )
    def test_final_number(self, text: str, number: float | None) -> None:
        found = final_number(text)
        assert (None if found is None else float(found)) == number

    def test_equal_numbers_may_be_written_differently(self) -> None:
        assert same_final_number("it is 18.0", "#### 18") == 1
        assert same_final_number("no number", "nor here") == 0


class TestPhase:
    def test_reference_agreement_by_hand(self) -> None:
        outputs = ["one two three four", "five seven", None, "eight nine"]
        result = score(evidence(outputs), facts("reference-agreement"), REFERENCES, phases=["accuracy"])[
            "accuracy"
        ]
        # Equal, other words, failed, equal: 2 of 4.
        assert result["score"] == 0.5
        keys = ("scorer", "n", "failed", "unscored", "samples", "of_samples", "target", "judged")
        assert [result[key] for key in keys] == ["reference-agreement", 4, 1, 0, 4, 4, 0.5, True]

    def test_rouge_l_against_the_data_sets_answers(self) -> None:
        run = evidence(
            ["police kill the gunman", "the gunman kill police", None],
            answers=["police killed the gunman"] * 3,
        )
        result = score(run, facts("rouge-l"), None, phases=["accuracy"])["accuracy"]
        assert result["score"] == pytest.approx((0.75 + 0.5 + 0) / 3)
        assert result["interval"]["method"] == "student-t over samples"
        # 5/12 ± 4.303 · 0.2205 leaves the range of a score on both sides.
        assert (result["interval"]["low"], result["interval"]["high"]) == (0.0, 1.0)

    def test_the_interval_of_graded_scores_is_students(self) -> None:
        answers = ["a b c d"] * 5
        run = evidence(["a b c d", "a b c", "a b c", "a b", "a b c d"], answers=answers)
        result = score(run, facts("rouge-l"), None, phases=["accuracy"])["accuracy"]
        scores = [1, 6 / 7, 6 / 7, 2 / 3, 1]  # F1 of precision 1 and recall 1, 3/4, 1/2
        low, high = stats.t.interval(0.95, 4, loc=np.mean(scores), scale=stats.sem(scores))
        assert result["score"] == pytest.approx(np.mean(scores))
        assert result["interval"]["low"] == pytest.approx(low)
        assert result["interval"]["high"] == pytest.approx(min(1, high))

    def test_final_number_by_hand(self) -> None:
        result = score(evidence(OUTPUTS), facts("final-number"), None, phases=["accuracy"])["accuracy"]
        assert (result["score"], result["n"]) == (0.75, 4)
        wilson = stats.binomtest(3, 4).proportion_ci(0.95, method="wilson")
        assert result["interval"] == {
            "low": pytest.approx(wilson.low),
            "high": pytest.approx(wilson.high),
            "confidence": 0.95,
            "method": "wilson",
        }

    def test_exact_match_reads_the_data_sets_answers(self) -> None:
        outputs = [ANSWERS[0], "no", ANSWERS[2], None]
        assert (
            score(evidence(outputs), facts("exact-match"), None, phases=["accuracy"])["accuracy"]["score"]
            == 0.5
        )

    def test_numbers_in_the_data_set_are_compared_by_their_text(self) -> None:
        run = evidence(["18", "19"], answers=[18, 18])
        assert score(run, facts("exact-match"), None, phases=["accuracy"])["accuracy"]["score"] == 0.5

    def test_swapped_answers_are_seen(self) -> None:
        texts = ["one two three four", "five six", "seven", "eight nine"]
        straight = score(evidence(texts), facts("reference-agreement"), REFERENCES, phases=["accuracy"])[
            "accuracy"
        ]
        swapped = score(
            evidence(texts[1:] + texts[:1]), facts("reference-agreement"), REFERENCES, phases=["accuracy"]
        )["accuracy"]
        assert (straight["score"], swapped["score"]) == (1.0, 0.0)

    def test_only_the_asked_phase_counts_and_is_judged_as_the_scenario_says(self) -> None:
        run = evidence(OUTPUTS, phase="performance")
        assert (
            score(run, facts("final-number"), None, phases=["performance"])["performance"]["judged"] is False
        )
        assert score(run, facts("final-number"), None, phases=["accuracy"])["accuracy"] == {
            "undefined": "the phase has no answers"
        }

    def test_samples_without_a_reference_are_counted_and_not_scored(self) -> None:
        run = evidence(["5", "5", None], answers=["5", None, None])
        result = score(run, facts("exact-match"), None, phases=["accuracy"])["accuracy"]
        assert (result["n"], result["unscored"], result["failed"], result["score"]) == (1, 2, 0, 1.0)
        assert result["interval"] == {"undefined": "one sample has no spread"}

    def test_shorter_outputs_are_held_against_the_first_tokens(self) -> None:
        references = b'{"index":0,"text":"one two three","ends":[3,7,13]}\n'
        run = evidence(["one two"])
        found = score(
            run, facts("reference-agreement", max_output_tokens=2), references, phases=["accuracy"]
        )["accuracy"]
        assert found["score"] == 1.0

    @given(st.permutations(range(4)))
    def test_the_order_of_queries_does_not_matter(self, order: list[int]) -> None:
        run = evidence([OUTPUTS[i] for i in order], order)
        assert score(run, facts("final-number"), None, phases=["accuracy"])["accuracy"]["score"] == 0.75


class TestInterval:
    def test_perfect_scores_do_not_pretend_to_be_certain(self) -> None:
        run = evidence(["one two three four", "five six", "seven", "eight nine"])
        interval = score(run, facts("reference-agreement"), REFERENCES, phases=["accuracy"])["accuracy"][
            "interval"
        ]
        wilson = stats.binomtest(4, 4).proportion_ci(0.95, method="wilson")
        assert interval["low"] == pytest.approx(wilson.low)
        assert (interval["high"], interval["method"]) == (1.0, "wilson")

    def test_repeated_samples_do_not_narrow_it(self) -> None:
        outputs = ["so it is 18", "3", "no", "it is 18"]
        once = score(evidence(outputs), facts("rouge-l"), None, phases=["accuracy"])["accuracy"]
        often = score(evidence(outputs * 25, [0, 1, 2, 3] * 25), facts("rouge-l"), None, phases=["accuracy"])[
            "accuracy"
        ]
        assert (once["n"], often["n"], often["samples"]) == (4, 100, 4)
        assert 0 < once["score"] < 1
        for end in ("low", "high"):
            assert often["interval"][end] == pytest.approx(once["interval"][end])

    def test_it_covers_the_true_mean_as_often_as_it_says(self) -> None:
        from fairmark.measure.accuracy import _interval

        rng = np.random.default_rng(7)
        covered = 0
        for _ in range(1000):
            scores = rng.beta(3, 1, 64)  # mean 3/4, skewed towards 1 as real agreement is
            interval = _interval(scores, np.arange(64), binary=False)
            covered += interval["low"] <= 0.75 <= interval["high"]
        # 950 expected; 4.35 standard deviations of a binomial are 30.
        assert 920 <= covered <= 980


class TestUndefined:
    @pytest.mark.parametrize(
        ("scorer", "references", "options", "reason"),
        [
            ("reference-agreement", None, {}, "holds no reference outputs"),
            ("reference-agreement", b"{", {}, "cannot be read: line 1"),
            ("reference-agreement", REFERENCES, {"sha256": "0" * 64}, "the scenario pins 0{64}"),
            (
                "reference-agreement",
                b'{"index":0,"text":"one","ends":[3]}',
                {"max_output_tokens": 2},
                "end after 1 tokens, the scenario allows 2",
            ),
            ("reference-agreement", b'{"index":9,"text":"one"}', {}, "no answer has a reference"),
            ("final-number", None, {"max_output_tokens": 32}, "needs outputs of 256 tokens"),
            ("bleu", None, {}, "there is no scorer 'bleu'"),
        ],
    )
    def test_what_cannot_be_scored_says_why(
        self, scorer: str, references: bytes | None, options: dict[str, Any], reason: str
    ) -> None:
        result = score(evidence(OUTPUTS), facts(scorer, **options), references, phases=["accuracy"])[
            "accuracy"
        ]
        assert list(result) == ["undefined"]
        assert re.search(reason, result["undefined"])

    def test_a_scenario_without_accuracy_or_without_answers(self) -> None:
        record = facts("exact-match")
        record["scenario"]["samples"] = {}
        assert (
            "names no column"
            in score(evidence(OUTPUTS), record, None, phases=["accuracy"])["accuracy"]["undefined"]
        )
        del record["scenario"]["accuracy"]
        assert (
            "does not ask"
            in score(evidence(OUTPUTS), record, None, phases=["accuracy"])["accuracy"]["undefined"]
        )

    def test_the_pinned_reference_file_is_used(self) -> None:
        pin = hashlib.sha256(REFERENCES).hexdigest()
        result = score(
            evidence(OUTPUTS), facts("reference-agreement", sha256=pin), REFERENCES, phases=["accuracy"]
        )["accuracy"]
        assert result["n"] == 4


class TestCheckScorer:
    SAMPLES = Samples("r.jsonl", "q", reference="a")

    def test_usable_scorers_pass(self) -> None:
        for name in SCORERS:
            check_scorer(Accuracy(name, 0.5, reference="r"), self.SAMPLES, Generation(max_output_tokens=256))

    @pytest.mark.parametrize(
        ("accuracy", "samples", "limit", "message"),
        [
            (Accuracy("bleu", 0.5), SAMPLES, 256, r"accuracy\.scorer: .*accepted: reference-agreement, "),
            (Accuracy("reference-agreement", 0.5), SAMPLES, 16, r"accuracy\.reference: is missing"),
            (Accuracy("exact-match", 0.5), Samples("r.jsonl", "q"), 16, r"samples\.reference: is missing"),
            (Accuracy("final-number", 0.5), SAMPLES, 32, r"max_output_tokens: cuts .*accepted: >= 256"),
        ],
    )
    def test_unusable_ones_are_refused(
        self, accuracy: Accuracy, samples: Samples, limit: int, message: str
    ) -> None:
        with pytest.raises(InputError, match=message):
            check_scorer(accuracy, samples, Generation(max_output_tokens=limit))
