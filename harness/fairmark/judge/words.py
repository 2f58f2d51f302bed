"""Sentences about a record: templates with ``{/json/pointer|unit}`` in them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairmark.judge.pointer import MISSING, resolve
from fairmark.judge.vocabulary import is_number

__all__ = ["REMARK", "UNITS", "fill", "placeholders"]

_PLACEHOLDER: Final = re.compile(r"\{(/[^{}|]*)(?:\|(\w+))?\}")


def _number(value: float) -> str:
    """Whole from 1 000 on, with spaces between thousands; below that, four significant digits."""
    if float(value).is_integer() or abs(value) >= 1000:
        return f"{round(value):,}".replace(",", " ")
    return f"{value:.4g}"


UNITS: Final[dict[str, Callable[[float], str]]] = {
    "ms": lambda ns: f"{_number(ns / 1e6)} ms",
    "s": lambda ns: f"{_number(ns / 1e9)} s",
    "seconds": lambda s: f"{_number(math.ceil(s))} s",
    "percent": lambda share: f"{_number(share * 100)} %",
    "percentile": lambda fraction: f"p{_number(round(fraction * 100, 6))}",
    "qps": lambda rate: f"{_number(rate)} queries/s",
}
"""How a number is shown; ``ms`` and ``s`` take nanoseconds, as the record holds them;
``seconds`` rounds up."""

REMARK: Final = "remark"
"""In place of a unit: the value in brackets after a space, or nothing where there is none."""


def placeholders(template: str) -> list[tuple[str, str | None]]:
    """(pointer, unit) of each placeholder in ``template``."""
    return [(pointer, unit or None) for pointer, unit in _PLACEHOLDER.findall(template)]


def fill(template: str, record: Mapping[str, Any]) -> str:
    """``template`` with values of ``record`` in place of its placeholders; what is not there is “none”."""

    def show(match: re.Match[str]) -> str:
        value, unit = resolve(record, match[1]), match[2]
        if unit == REMARK:
            return "" if value is MISSING or value is None else f" ({value})"
        if value is MISSING or value is None:
            return "none"
        if unit and is_number(value):
            return UNITS[unit](value)
        if isinstance(value, dict):
            return ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
        return _number(value) if is_number(value) else str(value)

    return _PLACEHOLDER.sub(show, template)
