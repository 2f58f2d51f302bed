"""Repetitions of a run as one result: all of them are there, all of them pass, or it does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fairmark.measure.repetitions import spread

__all__ = ["SERIES", "incomplete", "judge_series", "series_of", "wanted_repetitions"]

SERIES: Final = "series.json"
"""The document's name in the folder that holds the repetitions."""

Record = Mapping[str, Any]


def wanted_repetitions(record: Record) -> int:
    """How many repetitions the settings of a run ask for.

    A run in accuracy mode asks the whole set once; other arrival times would not change an answer's quality.
    """
    return 1 if record["mode"] == "accuracy" else int(record["scenario"]["settings"].get("repetitions", 1))


def series_of(records: Iterable[Record]) -> list[list[Record]]:
    """The records that are repetitions of each other, for each run that asks for more than one.

    Repetitions have the series id, the scenario digest, the mode, the settings, the clock, the SUT with its
    options and the ruleset, where they have been judged, in common.
    """
    found: dict[str, list[Record]] = {}
    for record in records:
        if wanted_repetitions(record) > 1:
            sut = {name: record["sut"].get(name) for name in ("name", "plugin", "options")}
            rules = [record.get("verdict", {}).get(name) for name in ("ruleset", "ruleset_sha256")]
            asked = [record[name] for name in ("scenario_digest", "mode", "clock")]
            same = (record.get("series"), *asked, record["scenario"]["settings"], sut, rules)
            found.setdefault(repr(same), []).append(record)
    return [sorted(group, key=lambda r: int(r["plan"]["repetition"])) for group in found.values()]


def judge_series(records: Sequence[Record]) -> dict[str, Any]:
    """The document ``series.json`` (``schemas/series.schema.json``) of one of `series_of`.

    VALID when every repetition that the settings ask for is there once and VALID. INSUFFICIENT when what is
    not VALID is INSUFFICIENT; INVALID otherwise. The reasons name the repetition.
    """
    first, wanted = records[0], wanted_repetitions(records[0])
    held = [int(record["plan"]["repetition"]) for record in records]
    reasons = incomplete(records)
    words = {record["verdict"]["verdict"] for record in records}
    verdict = "INVALID" if reasons or "INVALID" in words else max(words, key=("VALID", "INSUFFICIENT").index)
    for number, record in zip(held, records, strict=True):
        reasons += [f"repetition {number}: {reason}" for reason in record["verdict"]["reasons"]]
    return {
        "schema": "fairmark/series/1",
        "scenario_digest": first["scenario_digest"],
        "mode": first["mode"],
        "ruleset": first["verdict"]["ruleset"],
        "repetitions": wanted,
        "verdict": verdict,
        "reasons": reasons,
        "runs": [
            {
                "repetition": number,
                "run_id": record["run_id"],
                "schedule_seed": record["plan"]["seeds"]["schedule"],
                "verdict": record["verdict"]["verdict"],
            }
            for number, record in zip(held, records, strict=True)
        ],
        "spread": _spreads([record["metrics"] for record in records]),
    }


def incomplete(records: Sequence[Record]) -> list[str]:
    """What one of `series_of` lacks or has too much, a sentence for each repetition.

    The best of several series is none: all repetitions must be of one, which `fairmark run` gave an id.
    """
    wanted = wanted_repetitions(records[0])
    held = [int(record["plan"]["repetition"]) for record in records]
    missing = sorted(set(range(wanted)) - set(held))
    twice = sorted({number for number in held if held.count(number) > 1})
    beyond = sorted({number for number in held if number >= wanted})
    alone = sorted({n for n, record in zip(held, records, strict=True) if record.get("series") is None})
    several = {record.get("series") for record in records} - {None}
    return [
        *(f"repetition {number} was run alone, in no series" for number in alone),
        *([f"the repetitions are of {len(several)} series, not of one"] if len(several) > 1 else []),
        *(f"repetition {number} of {wanted} is missing" for number in missing),
        *(f"repetition {number} is there more than once" for number in twice),
        *(f"repetition {number} is more than the {wanted} that were asked for" for number in beyond),
    ]


def _spreads(metrics: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    common = [name for name in metrics[0] if all(name in each for each in metrics)]
    return {name: spread([each[name] for each in metrics]) for name in common}
