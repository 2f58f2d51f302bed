"""What a plugin module may provide. fairmark calls these once, never per query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fairmark.hooks import PROJECT, hookimpl, hookspec

if TYPE_CHECKING:
    from fairmark.sut.api import SUT

__all__ = ["PROJECT", "fairmark_suts", "hookimpl", "hookspec"]


@hookspec
def fairmark_suts() -> Mapping[str, type[SUT]]:  # type: ignore[empty-body]
    """The systems under test of this module, by name.

    The entry point that leads to the module must have the same name, so that fairmark imports only the
    plugin that a run asks for::

        [project.entry-points.fairmark]
        my-engine = "my_engine.plugin"
    """
