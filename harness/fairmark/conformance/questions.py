"""The questions of the kit: few, short, and so different that no two have the same answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fairmark.samples.content import canonical_row, digest_rows
from fairmark.samples.library import SampleLibrary
from fairmark.scenario.load import parse_scenario
from fairmark.scenario.model import InputKind, Scenario
from fairmark.study.prepare import Prepared
from fairmark.traffic.plan import make_plan
from fairmark.traffic.settings import traffic_settings

__all__ = ["QUESTIONS", "TOKENS", "questions"]

QUESTIONS: Final = (
    "Name the colours of the rainbow.",
    "How do bees make honey?",
    "Count from one to twelve in words.",
    "What is the capital of France, and which river runs through it?",
    "Write a line of Python that prints the square of seven.",
    "Why does iron rust?",
    "List four animals that live in the sea.",
    "Translate 'good morning' into Spanish and German.",
)

TOKENS: Final = 24
"""How long answers may be, in tokens, unless an exercise says otherwise."""

_SCENARIO: Final = """\
schema = "fairmark/scenario/1"
name = "conformance-{name}"
benchmark = "conformance"
scenario = "{kind}"

[model]
name = "any"

[samples]
source = "questions.jsonl"
prompt = "question"
input = "{input}"

[generation]
max_output_tokens = {tokens}
temperature = 0.0
stop = [{stop}]

[warmup]
queries = 0
steady = false

[run]
min_query_count = {queries}
max_query_count = {queries}
sampling = "equal"
query_timeout_s = {patience}
drain_timeout_s = {drain}
"""


def questions(
    name: str,
    kind: str,
    *,
    input_kind: InputKind,
    rounds: int,
    patience_s: float,
    tokens: int = TOKENS,
    stop: Sequence[str] = (),
    in_flight: int | None = None,
) -> Prepared:
    """A run of ``rounds`` times the questions, ready to be driven.

    Args:
        kind: of the scenario.
        patience_s: how long a query may take.
        in_flight: for Concurrency.
    """
    text = _SCENARIO.format(
        name=name,
        kind=kind,
        input=input_kind,
        tokens=tokens,
        stop=", ".join(map(_toml_string, stop)),
        queries=rounds * len(QUESTIONS),
        patience=float(patience_s),
        drain=2.0 * patience_s,
    )
    if in_flight is not None:
        text += f"\n[settings]\nconcurrency = {in_flight}\n"
    scenario = parse_scenario(text.encode(), source=f"the exercise {name}")
    library = _library(scenario)
    return Prepared(
        scenario=scenario,
        text=text.encode(),
        library=library,
        references=None,
        arrivals=None,
        mode="performance",
        repetition=0,
        plans={"performance": make_plan(traffic_settings(scenario, "performance", len(library)))},
    )


def _library(scenario: Scenario) -> SampleLibrary:
    """They are here already: no file is read and nothing is cached."""
    rows = [canonical_row({"question": question}, ["question"]) for question in QUESTIONS]
    return SampleLibrary(scenario.samples, scenario.generation, tuple(rows), digest_rows(rows))


def _toml_string(text: str) -> str:
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'
