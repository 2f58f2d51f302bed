"""Answers that are programs: what to run for a HumanEval problem, and pass@k of the outcomes.

Nothing is run here. Who allows it hands in a `Runner`; without one, programs have no score.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import comb
from typing import Final, TypeAlias

__all__ = ["NOT_ALLOWED", "Runner", "pass_at_k", "program_of"]

Runner: TypeAlias = Callable[[str], bool]
"""Runs a Python program where it can do no harm; whether it came to its end without an error."""

NOT_ALLOWED: Final = "answers are programs, and running them was not allowed (--allow-code-execution)"

_FENCED: Final = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL | re.IGNORECASE)
_DEFINED: Final = re.compile(r"^def (\w+)\(", re.MULTILINE)
_GOES_ON: Final = re.compile(r"^(?=\S)(?!def |class |import |from |@|#)", re.MULTILINE)


def program_of(prompt: str, answer: str, test: str) -> str | None:
    """The program that shows whether ``answer`` solves a problem; None where the prompt defines no function.

    ``prompt`` ends with a function to complete and ``test`` defines ``check(candidate)`` (Chen et al.,
    Evaluating Large Language Models Trained on Code, 2021, section 2.2). The answer's first code block
    counts where it has one, else all of it. If it defines the function it stands for itself, after what the
    prompt imports and defines before; else it is the body, up to the first line at the margin that is no
    definition.
    """
    names = _DEFINED.findall(prompt)
    if not names:
        return None
    name = names[-1]
    fenced = _FENCED.search(answer)
    code = fenced[1] if fenced else answer
    if re.search(rf"^def {name}\(", code, re.MULTILINE):
        before = prompt[: prompt.rindex(f"def {name}(")]
        solution = f"{before}\n{code}"
    else:
        end = _GOES_ON.search(code, 1) if code else None
        solution = prompt + (code[: end.start()] if end else code)
    return f"{solution}\n\n{test}\n\ncheck({name})\n"


def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k from ``c`` right ones of ``n`` answers to one problem: c/n for k = 1.

    1 - C(n - c, k) / C(n, k) (Chen et al. 2021, equation 1).

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@{k} of {c} right ones among {n} does not exist")
    return 1.0 - comb(n - c, k) / comb(n, k)
