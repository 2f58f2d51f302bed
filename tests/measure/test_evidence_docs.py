"""docs/evidence.md and schemas/evidence.schema.json describe the columns that the code reads and writes."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

from jsonschema import Draft202012Validator

from fairmark.evidence.columns import EVENT_KINDS, FAILURES, FLAGS, PHASES
from fairmark.evidence.tables import TABLES

DOCS = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text("utf-8")
SCHEMA = json.loads(resources.files("fairmark.schemas").joinpath("evidence.schema.json").read_text("utf-8"))


def test_the_page_has_every_column_with_its_type():
    sections = dict(re.findall(r"^## (\w+):(.*?)(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL))
    found = {
        name: dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", text, re.MULTILINE))
        for name, text in sections.items()
    }
    assert found == TABLES


def test_the_page_has_every_failure_kind():
    assert _listed("Failure kinds, a closed list") == list(FAILURES)


def test_the_page_has_every_flag_and_decoders_set_no_other():
    assert _listed("Flags do not make a success a failure") == list(FLAGS)
    package = Path(__file__).parents[2] / "harness" / "fairmark"
    code = "".join(p.read_text("utf-8") for p in (package / "wire").glob("*.py"))
    assert set(re.findall(r'flags\.add\("(\w+)"\)', code)) == set(FLAGS)


def _listed(title: str) -> list[str]:
    """The names in the first column of the table under a line."""
    _, _, after = DOCS.partition(f"{title}:\n\n")
    rows = after.partition("\n\n")[0].splitlines()[2:]
    return [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_schema_has_every_column_and_every_closed_list():
    Draft202012Validator.check_schema(SCHEMA)
    assert {name: list(SCHEMA["$defs"][name]["properties"]) for name in TABLES} == {
        name: list(columns) for name, columns in TABLES.items()
    }
    queries = SCHEMA["$defs"]["queries"]["properties"]
    assert queries["failure"]["enum"] == [*FAILURES, None]
    assert queries["phase"]["enum"] == [*PHASES, None]
    assert SCHEMA["$defs"]["events"]["properties"]["kind"]["enum"] == [*EVENT_KINDS, None]


def test_rows_of_a_table_follow_the_schema(evidence_of):
    evidence = evidence_of([{"scheduled_ns": 0, "issued_ns": 1, "failure": "timeout"}])
    document = {"queries": evidence.queries.to_pylist(), "plan": evidence.plan.to_pylist()}
    Draft202012Validator(SCHEMA).validate(document)
