"""Scores of one answer against one reference, each between 0 (unlike) and 1 (alike)."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

__all__ = ["common_prefix_share", "exact_match", "rouge_l", "words"]

_WORD = re.compile(r"\w+|[^\w\s]")


def words(text: str) -> list[str]:
    """Runs of word characters, and every other printing character on its own; white space does not count."""
    return _WORD.findall(text)


def common_prefix_share(output: str, reference: str) -> float:
    """Words that both texts begin with, as a share of the longer text's words; 1 if both are empty."""
    ours, theirs = words(output), words(reference)
    longest = max(len(ours), len(theirs))
    if longest == 0:
        return 1.0
    shared = 0
    for a, b in zip(ours, theirs, strict=False):
        if a != b:
            break
        shared += 1
    return shared / longest


@cache
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], use_stemmer=False)


def rouge_l(output: str, reference: str) -> float:
    """ROUGE-L F1: longest common subsequence of words (Lin 2004, section 3.1), by the package `rouge-score`."""
    return float(_rouge().score(reference, output)["rougeL"].fmeasure)


def exact_match(output: str, reference: str) -> float:
    """1 if the texts are equal up to white space around them, else 0."""
    return float(output.strip() == reference.strip())
