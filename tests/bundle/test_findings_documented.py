"""docs/bundle.md lists every finding that the code can make, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import fairmark

ROOT = Path(__file__).parents[2]


def test_every_finding_is_documented_and_every_documented_finding_exists() -> None:
    package = Path(fairmark.__file__).parent
    code = "".join(
        path.read_text(encoding="utf-8")
        for stage in ("bundle", "audit")
        for path in sorted((package / stage).glob("*.py"))
    )
    made = set(re.findall(r'"((?:bundle|run|audit)\.[a-z-]+)"', code)) - {"run.json"}
    # numbers.py makes one id per part of the record that it compares.
    made |= {f"audit.{part}" for part in re.findall(r'_report\("(\w+)"', code)}
    page = (ROOT / "docs" / "bundle.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z.-]+)` \|", page, re.MULTILINE))
    assert made == documented
