"""A plugin that imports half the world at the top of its file."""

from __future__ import annotations

import sys
from pathlib import Path

import scipy.stats  # noqa: F401

import fairmark

sys.path.insert(0, str(Path(__file__).parent))
from good_plugin import Good  # type: ignore[import-not-found]


@fairmark.hookimpl
def fairmark_suts() -> dict[str, type[fairmark.SUT]]:
    return {"light-import": Good}
