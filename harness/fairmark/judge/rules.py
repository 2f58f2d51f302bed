"""Rules and rulesets: folders of JSON files that anyone can write without code (docs/writing-rules.md)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from fairmark.errors import InputError
from fairmark.judge.vocabulary import comparisons_in, unknown_keywords
from fairmark.judge.words import REMARK, UNITS, placeholders

__all__ = ["Rule", "Ruleset", "load_ruleset", "shipped_rulesets"]

Severity = Literal["error", "warning"]
Outcome = Literal["pass", "fail", "insufficient", "not_evaluable"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule over the run record.

    Attributes:
        at: JSON pointer of the value that ``schema`` holds for.
        needs: the JSON type of each pointer that must be there and not null before ``schema`` is asked.
        schema: JSON Schema 2020-12 with the keywords of `fairmark.judge.vocabulary`.
        applies: a schema over the whole record; where it does not hold the rule is left out. None: always.
        optional: pointers in ``applies`` that a record may lack; where others are missing, it is not known
            whether the rule applies.
        expected, message: templates (`fairmark.judge.words`) for what is demanded and for what is wrong.
        failing: the outcome when ``schema`` does not hold: ``fail``, or ``insufficient`` when a longer run
            could pass.
        missing: the outcome when a need is not met: ``not_evaluable`` or ``insufficient``.
        document: the rule as written, for the ruleset's digest.
    """

    id: str
    title: str
    guards: str
    section: str
    severity: Severity
    fix: str
    at: str
    needs: Mapping[str, str]
    schema: Mapping[str, Any]
    applies: Mapping[str, Any] | None
    optional: tuple[str, ...]
    expected: str
    message: str
    failing: Outcome
    missing: Outcome
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ruleset:
    """Rules in the order of their sections, and the SHA-256 of the RFC 8785 form of its id and its rules.

    ``lineage`` is its id and those of the rulesets that it extends, nearest first.
    """

    id: str
    title: str
    rules: tuple[Rule, ...]
    sha256: str
    lineage: tuple[str, ...]


def _shipped() -> Traversable:
    return resources.files("fairmark.schemas").joinpath("rules")


def shipped_rulesets() -> tuple[str, ...]:
    """Names of the rulesets that come with fairmark."""
    return tuple(sorted(folder.name for folder in _shipped().iterdir() if folder.is_dir()))


def load_ruleset(name_or_path: str | Path) -> Ruleset:
    """Load a shipped ruleset by name, or the folder at a path.

    Raises:
        InputError: there is no such ruleset, or a file of it is not a rule; the message names file and field.
    """
    return _load(name_or_path, ())


def _load(name_or_path: str | Path, through: tuple[str, ...]) -> Ruleset:
    folder = _folder(name_or_path)
    head = _read(folder.joinpath("ruleset.json"), "ruleset")
    if head["id"] in through:
        raise InputError("extends itself", source=str(folder), field="extends", value=head["extends"])
    base = _load(head["extends"], (*through, head["id"])) if "extends" in head else None
    rules = {} if base is None else {rule.id: rule for rule in _inherited(head, folder, base)}
    own: dict[str, str] = {}
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".json") or file.name == "ruleset.json":
            continue
        rule = _rule(file)
        if rule.id in own:
            raise InputError(
                "is already taken", source=str(file), field="id", value=rule.id, accepted=own[rule.id]
            )
        own[rule.id] = file.name
        rules[rule.id] = rule
    if not rules:
        raise InputError("holds no rule, so everything would pass", source=str(folder))
    ordered = tuple(sorted(rules.values(), key=_place))
    lineage = (head["id"], *(() if base is None else base.lineage))
    return Ruleset(head["id"], head["title"], ordered, _digest(head["id"], ordered), lineage)


def _place(rule: Rule) -> tuple[list[int], str]:
    """Rules in the order of the rules text: section 2.1 before 10.1."""
    return [int(number) for number in re.findall(r"\d+", rule.section)], rule.id


def _inherited(head: Mapping[str, Any], folder: Traversable, base: Ruleset) -> tuple[Rule, ...]:
    """Rules of the ruleset that this one extends, without those that it drops."""
    unknown = sorted(set(head.get("without", ())) - {rule.id for rule in base.rules})
    if unknown:
        raise InputError(
            f"names rules that {base.id} does not have", source=str(folder), field="without", value=unknown
        )
    return tuple(rule for rule in base.rules if rule.id not in head.get("without", ()))


def _folder(name_or_path: str | Path) -> Traversable:
    if str(name_or_path) in shipped_rulesets():
        return _shipped().joinpath(str(name_or_path))
    path = Path(name_or_path)
    if not path.joinpath("ruleset.json").is_file():
        raise InputError(
            "is no ruleset",
            source="--ruleset",
            value=str(name_or_path),
            accepted=f"{', '.join(shipped_rulesets())}, or a folder with a ruleset.json",
        )
    return path


@cache
def _checker(definition: str) -> Any:
    from jsonschema import Draft202012Validator

    text = resources.files("fairmark.schemas").joinpath("rule.schema.json").read_text(encoding="utf-8")
    return Draft202012Validator({**json.loads(text), "$ref": f"#/$defs/{definition}"})


def _read(file: Traversable, definition: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=str(file)) from error
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", source=str(file)) from error
    errors = sorted(_checker(definition).iter_errors(document), key=lambda e: list(map(str, e.absolute_path)))
    if errors:
        field = ".".join(map(str, errors[0].absolute_path)) or None
        raise InputError(errors[0].message, source=str(file), field=field)
    return document


def _rule(file: Traversable) -> Rule:
    document = _read(file, "rule")
    for field in ("schema", "applies"):
        _check_schema(document.get(field, {}), file, field)
    for field in ("expected", "message"):
        for _, unit in placeholders(document[field]):
            if unit is not None and unit not in (*UNITS, REMARK):
                raise InputError(
                    "is no unit",
                    source=str(file),
                    field=field,
                    value=unit,
                    accepted=", ".join((*UNITS, REMARK)),
                )
    if document["at"] not in document["needs"]:
        raise InputError(
            "does not give the type of the judged value",
            source=str(file),
            field="needs",
            accepted=document["at"],
        )
    return Rule(
        **{
            key: document[key]
            for key in (
                "id",
                "title",
                "guards",
                "section",
                "severity",
                "fix",
                "at",
                "needs",
                "schema",
                "expected",
                "message",
            )
        },
        applies=document.get("applies"),
        optional=tuple(document.get("optional", ())),
        failing=document.get("failing", "fail"),
        missing=document.get("missing", "not_evaluable"),
        document=document,
    )


def _check_schema(schema: Mapping[str, Any], file: Traversable, field: str) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        path = ".".join(map(str, (field, *error.absolute_path)))
        raise InputError(error.message, source=str(file), field=path) from error
    unknown = sorted(unknown_keywords(schema))
    if unknown:
        raise InputError("uses keywords that do not exist", source=str(file), field=field, value=unknown)
    for comparison in comparisons_in(schema):
        if not _checker("comparison").is_valid(comparison):
            raise InputError(
                "compares with nothing",
                source=str(file),
                field=field,
                value=comparison,
                accepted='{"pointer": "/json/pointer", "scale": number}',
            )


def _digest(name: str, rules: tuple[Rule, ...]) -> str:
    import rfc8785

    content: Any = {"id": name, "rules": [dict(rule.document) for rule in rules]}
    return hashlib.sha256(rfc8785.dumps(content)).hexdigest()
