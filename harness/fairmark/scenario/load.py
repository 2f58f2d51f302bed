"""Scenario files: read, validated, resolved and frozen."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, NoReturn

from fairmark.errors import InputError
from fairmark.scenario.check import check_scenario
from fairmark.scenario.digest import scenario_digest
from fairmark.scenario.explain import Locate, Place, explain
from fairmark.scenario.model import (
    Accuracy,
    Arrivals,
    Bounds,
    Constraints,
    Generation,
    Model,
    Run,
    Samples,
    Scenario,
    Seeds,
    Settings,
    Warmup,
)
from fairmark.scenario.toml import apply_override, line_of, parse_toml, read_scenario_file

__all__ = ["NAMED_SEEDS", "load_scenario", "parse_scenario"]

_LARGEST_INTEGER: Final = (1 << 53) - 1
"""Beyond it RFC 8785 has no integers; seeds are digested as strings."""

NAMED_SEEDS: Mapping[str, Mapping[str, str]] = {
    # mlperf.conf of MLPerf Inference v6.1, lines 41-48.
    "mlperf-6.1": {
        "qsl": "2085463073848966840",
        "sample_index": "2747215439041700203",
        "schedule": "16159082839903944936",
    }
}
"""Frozen seed sets by name. A name never changes its meaning."""


def load_scenario(name: str | Path, overrides: Sequence[str] = ()) -> Scenario:
    """Load the scenario file at a path, or a shipped scenario by name.

    Args:
        name: a path, or a name from `toml.shipped_scenarios`.
        overrides: ``--set`` assignments, ``path=value``.

    Raises:
        InputError: the file is missing or malformed, or a value cannot be accepted; the message names the
            file, line, field, value and what would be accepted.
    """
    path, text = read_scenario_file(name)
    return parse_scenario(text, source=str(path), overrides=overrides)


def parse_scenario(text: bytes, *, source: str, overrides: Sequence[str] = ()) -> Scenario:
    """Parse the bytes of a scenario file; see `load_scenario`."""
    raw = parse_toml(text, source)
    for assignment in overrides:
        apply_override(raw, assignment)
    locate = _locator(text, source, overrides)
    _refuse_non_json(raw, locate)
    errors = sorted(_validator().iter_errors(raw), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        raise explain(errors[0], locate)
    document = _with_defaults(raw, _schema(), _schema())
    document.setdefault("benchmark", document["name"])
    document["seeds"] = _seeds(document["seeds"])
    scenario = _build(document, overrides=tuple(overrides), source=source)
    check_scenario(scenario, locate)
    return scenario


@cache
def _schema() -> dict[str, Any]:
    text = resources.files("fairmark.schemas").joinpath("scenario.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(_schema())


def _locator(text: bytes, source: str, overrides: Sequence[str]) -> Locate:
    """Blame ``--set`` for what it set and the file for everything else."""
    assigned = [assignment.partition("=")[0].split(".") for assignment in overrides]

    def locate(path: Sequence[str | int]) -> Place:
        keys = [str(part) for part in path]
        if any(a[: len(keys)] == keys or keys[: len(a)] == a for a in assigned if keys):
            return "--set", None
        return source, line_of(text, path)

    return locate


def _refuse_non_json(value: Any, locate: Locate, path: tuple[str, ...] = ()) -> None:
    """TOML knows dates, nan and inf; none of them can be digested."""
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_json(item, locate, (*path, key))
    elif isinstance(value, list):
        for item in value:
            _refuse_non_json(item, locate, path)
    elif isinstance(value, float) and not math.isfinite(value):
        _refuse("is not a finite number", value, "a finite number", locate, path)
    elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER and path[0] != "seeds":
        _refuse("is too large", value, "an integer up to 2^53 - 1", locate, path)
    elif not isinstance(value, (str, int, float, bool)):
        _refuse("has a type that scenarios do not use", str(value), "JSON's types", locate, path)


def _refuse(problem: str, value: object, accepted: str, locate: Locate, path: tuple[str, ...]) -> NoReturn:
    source, line = locate(path)
    raise InputError(problem, source=source, line=line, field=".".join(path), value=value, accepted=accepted)


def _with_defaults(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
    """A copy of ``value`` with the schema's defaults filled in, tables recursively."""
    while "$ref" in schema:
        target: Any = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        schema = target
    if not isinstance(value, dict) or schema.get("type") != "object":
        return value
    properties = schema.get("properties", {})
    filled = dict(value)
    for key, sub in properties.items():
        if key not in filled and "default" in sub:
            filled[key] = sub["default"]
    extra = schema.get("additionalProperties", {})
    return {
        key: _with_defaults(item, properties.get(key, extra if isinstance(extra, dict) else {}), root)
        for key, item in filled.items()
    }


def _seeds(value: str | Mapping[str, Any]) -> dict[str, str]:
    """Seeds as decimal strings: JSON numbers above 2^53 are not portable (RFC 8785, section 3.2.2.3)."""
    named = NAMED_SEEDS[value] if isinstance(value, str) else value
    return {key: str(named[key]) for key in ("qsl", "sample_index", "schedule")}


def _constraints(table: Mapping[str, Any]) -> Constraints:
    bounds = Bounds(table.get("ttft_ms"), table.get("tpot_ms"), table.get("e2e_ms"))
    return Constraints(table.get("percentile"), bounds, table["max_failure_rate"])


def _frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}


def _build(document: dict[str, Any], *, overrides: tuple[str, ...], source: str) -> Scenario:
    return Scenario(
        name=document["name"],
        benchmark=document["benchmark"],
        scenario=document["scenario"],
        model=Model(**_frozen(document["model"])),
        samples=Samples(**_frozen(document["samples"])),
        generation=Generation(**_frozen(document["generation"])),
        arrivals=Arrivals(**_frozen(document["arrivals"])),
        seeds=Seeds(**{k: int(v) for k, v in document["seeds"].items()}),
        warmup=Warmup(**_frozen(document["warmup"])),
        run=Run(**_frozen(document["run"])),
        constraints=_constraints(document["constraints"]),
        accuracy=Accuracy(**_frozen(document["accuracy"])) if "accuracy" in document else None,
        settings=Settings(**_frozen(document["settings"])),
        classes={name: _constraints(table) for name, table in document["classes"].items()},
        document=document,
        digest=scenario_digest(document),
        overrides=overrides,
        source=source,
    )
