"""Scores of one answer against one reference, each between 0 (unlike) and 1 (alike)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final, Literal

__all__ = [
    "SCORERS",
    "Scorer",
    "exact_match",
    "final_number",
    "rouge_l",
    "same_final_number",
    "same_words",
    "words",
]

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Runs of word characters, and every other printing character on its own; white space does not count."""
    return _WORD.findall(text)


def same_words(output: str, reference: str) -> float:
    """1 if both texts have the same `words` in the same order, else 0."""
    return float(words(output) == words(reference))


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)


def rouge_l(output: str, reference: str) -> float:
    """ROUGE-L F1 (Lin 2004, section 3.1): the longest common subsequence of words, by `rouge-score`."""
    return float(_rouge().score(reference, output)["rougeL"].fmeasure)


def exact_match(output: str, reference: str) -> float:
    """1 if the texts are equal up to white space around them, else 0."""
    return float(output.strip() == reference.strip())


_NUMBER = re.compile(r"(?<![\w.)])-?\d+(?:,\d{3})*(?:\.\d+)?|\d+(?:,\d{3})*(?:\.\d+)?")


def final_number(text: str) -> Decimal | None:
    """The number a worked answer ends with: the first after the last ``####``, else the last in the text.

    Thousands are grouped by commas. A minus is a sign only where no operand precedes it, so that ``5-3``
    ends with 3. The form ``#### 18`` is GSM8K's (Cobbe et al. 2021, section 2).
    """
    _, mark, tail = text.rpartition("####")
    numbers = _NUMBER.findall(tail)
    if not numbers:
        return None
    return Decimal(numbers[0 if mark else -1].replace(",", ""))


def same_final_number(output: str, reference: str) -> float:
    """1 if both texts end with the same number (18 and 18.0 are the same), else 0."""
    number = final_number(output)
    return float(number is not None and number == final_number(reference))


def _not_compared(output: str, reference: str) -> float:
    raise TypeError("answers that are programs are run, not compared")


@dataclass(frozen=True, slots=True)
class Scorer:
    """A way to score answers.

    Attributes:
        name: how scenarios name it.
        score: of an output and a reference, between 0 and 1.
        against: what it compares with: the outputs of the reference implementation
            (``accuracy.reference``), the data set's answers (the column ``samples.reference``), or its tests
            (the same column), for answers that are programs; those are run, and ``score`` is not asked.
        binary: whether the score is 0 or 1 and nothing between.
        min_output_tokens: below this limit on the output, answers are cut before they can be right.
    """

    name: str
    score: Callable[[str, str], float]
    against: Literal["references", "answers", "tests"]
    binary: bool = False
    min_output_tokens: int = 0


SCORERS: Final[Mapping[str, Scorer]] = {
    scorer.name: scorer
    for scorer in (
        # Whole answers, because that tells wrong serving from right best: scenarios/references/README.md.
        Scorer("reference-agreement", same_words, "references", binary=True),
        Scorer("rouge-l", rouge_l, "answers"),
        Scorer("exact-match", exact_match, "answers", binary=True),
        # HumanEval (Chen et al. 2021): the answer passes the problem's tests.
        Scorer("pass-at-1", _not_compared, "tests", binary=True),
        # GSM8K's own worked answers have 127 tokens on average, the longest 1 % more than 287.
        Scorer("final-number", same_final_number, "answers", binary=True, min_output_tokens=256),
    )
}
"""The scorers that ``accuracy.scorer`` may name."""
