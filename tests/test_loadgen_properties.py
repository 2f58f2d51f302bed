"""Each listed property of LoadGen has a test with its number in its name: ``test_property_<number>_…``."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PROPERTIES = {
    1: "a seed counts by its low 32 bits",
    2: "first words of mt19937",
    3: "short shuffles",
    4: "both branches of the shuffle",
    5: "the performance set",
    6: "the accuracy sets",
    7: "exponential gaps, the first query at 0",
    8: "a short Server run",
    9: "ten minutes of Server: 60155 queries",
    10: "their sample order",
    11: "order and schedule do not depend on each other's seed",
    12: "the order depends on the minimum query count",
    13: "the kinds of sampling",
    14: "equal issue in Server",
    15: "further epochs of equal issue repeat the permutations",
    16: "how many samples Offline has",
    17: "minimum queries of SingleStream with equal issue",
    18: "queries of MultiStream are contiguous",
    19: "closed loops plan twice the minimum duration",
    20: "Server latency counts from the schedule",
    21: "SingleStream latency leaves out the time between queries",
    22: "Offline latency counts from the start",
    23: "responses of one call have one completion time",
    24: "where SingleStream stops",
    25: "what the minimum duration is judged on",
    26: "Server's two rates",
    27: "a percentile is a truncated rank",
    28: "a mean is truncated",
    29: "a latency at the bound passes",
    30: "queries needed by early stopping",
    31: "estimates of SingleStream",
    32: "SingleStream's estimate for MultiStream",
    33: "MultiStream needs 662 queries",
    34: "Server's early stopping",
    35: "VALID is four conditions",
    36: "Offline has no early stopping",
    37: "time per output token",
    38: "unusable token counts, a missing first token, a double completion",
    39: "Offline needs no first token",
    40: "token mode judges TTFT and TPOT apart",
    41: "token rates",
    42: "the built-in bounds",
    43: "the keys of a detail log",
    44: "numbers that are not finite",
    45: "the accuracy log",
    46: "sampled responses",
    47: "audit.config",
    48: "precedence, syntax and units of configurations",
    49: "what user.conf cannot change",
    50: "early ends",
    51: "coalescing",
    52: "find-peak",
    53: "a plan that runs out",
    54: "one flush a series",
    55: "every issued sample is awaited",
}


def test_every_property_has_a_test_that_bears_its_number() -> None:
    tests: dict[int, list[str]] = defaultdict(list)
    for path in sorted(Path(__file__).parent.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_property_"):
                tests[int(node.name.split("_")[2])].append(node.name)
    assert sorted(PROPERTIES) == list(range(1, 56))
    assert [number for number in PROPERTIES if not tests[number]] == []
    assert sorted(tests) == sorted(PROPERTIES)
