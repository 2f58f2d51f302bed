"""Answers that are programs: what is run, what it is worth, and that nothing is run unasked."""

from __future__ import annotations

import itertools

import pytest

from fairmark.evidence.evidence import Evidence
from fairmark.evidence.tables import table
from fairmark.measure.accuracy import score
from fairmark.measure.programs import NOT_ALLOWED, pass_at_k, program_of

PROMPT = 'import math\n\ndef help(x):\n    return x\n\ndef add(a, b):\n    """Sum."""\n'
TEST = "def check(candidate):\n    assert candidate(1, 2) == 3"
RIGHT = "    return a + b\n"


def outcome(answer):
    """Whether the program runs through; these are ours, so they run here."""
    try:
        exec(program_of(PROMPT, answer, TEST), {})
    except Exception as error:  # noqa: BLE001
        return type(error).__name__
    return "passed"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (RIGHT, "passed"),
        ("    return a - b\n", "AssertionError"),
        (RIGHT + "\nprint(add(1, 2)\nThat was it.", "passed"),
        (RIGHT + "\ndef more():\n    pass\n", "passed"),
        ("Here it is:\n```python\ndef add(a, b):\n    return help(a) + b\n```\nDone.", "passed"),
        ("```\n    return a + b\n```", "passed"),
        ("```python\ndef add(a, b):\n    return math.floor(a + b)", "passed"),
        ("def add(a, b):\n    return b + a\n", "passed"),
        ("", "AssertionError"),
        ("I cannot.", "SyntaxError"),
    ],
)
def test_programs_of_answers(answer, expected):
    found = outcome(answer)
    assert found == expected or (expected == "SyntaxError" and found == "IndentationError")


def test_a_prompt_without_a_function_cannot_be_scored():
    assert program_of("What is 1 + 1?", RIGHT, TEST) is None


def test_pass_at_k_is_the_share_of_choices_with_a_right_one():
    for n in range(1, 7):
        for c, k in itertools.product(range(n + 1), range(1, n + 1)):
            choices = list(itertools.combinations(range(n), k))
            hits = sum(any(one < c for one in choice) for choice in choices)
            assert pass_at_k(n, c, k) == pytest.approx(hits / len(choices))
    assert pass_at_k(5, 2, 1) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="does not exist"):
        pass_at_k(2, 3, 1)


def evidence(answers):
    """Answers as (row, text or None for a failure) of one accuracy phase over two problems."""
    seq = list(range(len(answers)))
    queries = {
        "seq": seq,
        "sample_index": [row for row, _ in answers],
        "phase": ["accuracy"] * len(answers),
        "issued_ns": seq,
        "completed_ns": [None if text is None else n + 1 for n, (_, text) in enumerate(answers)],
        "failure": ["timeout" if text is None else None for _, text in answers],
    }
    problem = '{"prompt": "def f(x):\\n", "test": "t"}'
    return Evidence(
        queries=table("queries", queries),
        events=table("events", {}),
        outputs=table("outputs", {"seq": seq, "text": [text or "" for _, text in answers]}),
        samples=table("samples", {"index": [0, 1], "row": [problem, problem]}),
        plan=table("plan", {}),
        health=table("health", {}),
        telemetry=table("telemetry", {}),
        workers=[],
        environment={},
    )


FACTS = {
    "scenario": {
        "samples": {"prompt": "prompt", "reference": "test"},
        "generation": {},
        "accuracy": {"scorer": "pass-at-1", "target": 0.5, "judged": ["accuracy"]},
    }
}


def test_without_leave_nothing_is_run_and_there_is_no_score():
    found = score(evidence([(0, "    return x")]), FACTS, None, phases=["accuracy"])
    assert found == {"accuracy": {"undefined": NOT_ALLOWED}}


def test_problems_count_alike_and_failures_are_wrong():
    ran: list[str] = []

    def run(program):
        ran.append(program)
        return "right" in program

    answers = [(0, " right"), (0, " right"), (0, " wrong"), (0, None), (1, " right")]
    found = score(evidence(answers), FACTS, None, phases=["accuracy"], run_program=run)["accuracy"]
    assert (found["score"], found["n"], found["failed"], found["samples"]) == (0.75, 5, 1, 2)
    assert found["interval"]["method"] == "student-t over samples"
    assert len(ran) == 3  # equal answers to one problem are run once, failures not at all
