"""The example bundle in this repository still holds, and gives nothing private away."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairmark.audit.audit import audit
from fairmark.bundle.privacy import find_leaks, this_machine
from fairmark.bundle.tree import walk
from fairmark.bundle.verify import verify

SUBMISSIONS = Path(__file__).parents[2] / "submissions" / "example"


@pytest.fixture(scope="module")
def bundles() -> list[Path]:
    return [manifest.parent for manifest in sorted(SUBMISSIONS.rglob("manifest.json"))]


def test_there_is_one(bundles: list[Path]) -> None:
    assert bundles


def test_it_is_as_it_was_sealed_and_every_number_follows_from_its_evidence(bundles: list[Path]) -> None:
    for bundle in bundles:
        assert verify(bundle) == []
        report = audit(bundle)
        assert report.findings == ()
        assert report.recomputed == report.recorded


def test_it_holds_nothing_private(bundles: list[Path]) -> None:
    for bundle in bundles:
        assert find_leaks(bundle, [entry.path for entry in walk(bundle)], this_machine()) == []
