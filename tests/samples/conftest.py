from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairmark.samples import cache, prepare


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the tests that only need samples to be there."""
    return tmp_path_factory.mktemp("sample-cache")


@pytest.fixture
def cached(shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRMARK_CACHE", str(shared_cache))
    return shared_cache


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FAIRMARK_CACHE", str(folder))
    return folder


@pytest.fixture
def in_process(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prepare without the process around it, for tests that are about what is read and not about how."""

    def run(request: dict[str, Any], folder: Path, progress: object) -> None:
        prepare.prepare_rows(request)

    monkeypatch.setattr(cache, "run_preparation", run)
