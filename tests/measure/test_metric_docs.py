"""Each metric of the schema is documented, and each documented one is in the schema."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
SCHEMA = json.loads(resources.files("fairmark.schemas").joinpath("run.schema.json").read_text("utf-8"))
SHAPES = (
    "two_origins",
    "one_origin",
    "distribution",
    "interval",
    "summary",
    "lengths",
    "length_bucket",
    "fit",
    "bound",
    "stopping_check",
    "adjusted_check",
)


def defined(node):
    """The alternative of a node that is not `undefined`."""
    for option in node.get("oneOf", ()):
        if option != {"$ref": "#/$defs/undefined"}:
            return option
    return node


def ids(node, path):
    node = defined(node)
    if "$ref" in node:
        yield path
        return
    if node.get("items", {}).get("properties"):
        node, path = node["items"], f"{path}.*"
    extra = node.get("additionalProperties")
    if isinstance(extra, dict) and "properties" in extra:
        node, path = extra, f"{path}.*"
    properties = node.get("properties")
    if not properties or path in ("accuracy", "loadgen"):
        yield path
        return
    for name, child in properties.items():
        if name != "reasons":
            yield from ids(child, f"{path}.{name}" if path else name)


def schema_ids():
    found = set(ids(SCHEMA["$defs"]["phase"], ""))
    for shape in SHAPES:
        node = defined(SCHEMA["$defs"][shape])
        found |= {f"{shape}.{name}" for name in node["properties"] if name != "reasons"}
    return found


def documented_ids():
    rows = [line for line in DOCS.read_text("utf-8").splitlines() if line.startswith("| `")]
    found = [name for row in rows for name in re.findall(r"`([a-z_0-9.*]+)`", row.split("|")[1])]
    assert len(found) == len(set(found)), "a metric is defined twice"
    return set(found) | {"accuracy", "loadgen"}


def test_every_metric_of_the_schema_is_documented():
    assert schema_ids() - documented_ids() == set()


def test_every_documented_metric_is_in_the_schema():
    assert documented_ids() - schema_ids() == set()
