"""What installed packages may add to fairmark beside systems under test, and how it is found.

Each kind has an entry-point group of its own. Listing reads metadata only; a module is imported when what it
adds is asked for. fairmark calls no hook while a run is driven.

=====================  ==========================  =====================================================
group                  hook                        called by
=====================  ==========================  =====================================================
``fairmark``           `fairmark_suts`             ``fairmark run --sut NAME``, for the plugin NAME only
``fairmark.samples``   `fairmark_samples`          a scenario with ``samples.source = "plugin:NAME"``
``fairmark.report``    `fairmark_report_sections`  ``fairmark report``, for every such plugin
=====================  ==========================  =====================================================
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

import pluggy

from fairmark.errors import InputError

__all__ = [
    "PROJECT",
    "Section",
    "fairmark_report_sections",
    "fairmark_samples",
    "hookimpl",
    "hookspec",
    "named_samples",
    "report_sections",
]

PROJECT: Final = "fairmark"
SAMPLES: Final = "fairmark.samples"
REPORT: Final = "fairmark.report"

T = TypeVar("T")

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class Section:
    """A table that a plugin adds to reports. Cells are text, and are escaped."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@hookspec
def fairmark_samples() -> Mapping[str, Path]:  # type: ignore[empty-body]
    """Sample libraries by name: the path of a jsonl, csv or parquet file each.

    fairmark hashes, reads and caches the file like any other, so a scenario may pin its content. The entry
    point has the name of the library::

        [project.entry-points."fairmark.samples"]
        acme-questions = "acme.samples"
    """


@hookspec
def fairmark_report_sections(records: Sequence[Mapping[str, Any]]) -> Sequence[Section]:  # type: ignore[empty-body]
    """Tables for the end of a report on runs, from their records (`run.json`)."""


def named_samples(name: str) -> Path:
    """The file of the sample library ``name``.

    Raises:
        InputError: no plugin or more than one has it, its plugin cannot be imported, or it gives no path.
    """
    points = [point for point in metadata.entry_points(group=SAMPLES) if point.name == name]
    if len(points) != 1:
        known = sorted({point.name for point in metadata.entry_points(group=SAMPLES)})
        owners = " and ".join(_origin(point) for point in points)
        raise InputError(
            f"is claimed by {owners}; uninstall one" if points else "no installed plugin has these samples",
            field="samples.source",
            value=f"plugin:{name}",
            accepted=None if points else ", ".join(known) or "fairmark finds no plugin with samples",
        )
    found = dict(_call(points[0], "fairmark_samples", _named_paths))
    if not isinstance(found.get(name), Path):
        raise InputError(
            f"the plugin {_origin(points[0])} gives no path for it",
            field="samples.source",
            value=f"plugin:{name}",
        )
    path: Path = found[name]
    return path


def report_sections(records: Sequence[Mapping[str, Any]]) -> Iterator[Section | InputError]:
    """What installed plugins add to a report on ``records``.

    A plugin that cannot be imported, or fails, is an `InputError` in the place of its sections; the others
    go on.
    """
    for point in sorted(metadata.entry_points(group=REPORT), key=lambda point: point.name):
        try:
            sections = _call(point, "fairmark_report_sections", _whole_sections, records=records)
        except InputError as error:
            yield error
        else:
            yield from sections


def _call(
    point: metadata.EntryPoint, hook: str, items: Callable[[Any], Iterable[T]], **arguments: Any
) -> list[T]:
    """The results of ``hook`` in the plugin behind ``point``, joined.

    Args:
        items: the items of one result; raises `TypeError` where it is not what the hook must give.

    Raises:
        InputError: it cannot be imported, does not have the hook as it must be, raises, or gives something
            else.
    """
    module = _import(point)
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(importlib.import_module(__name__))
    try:
        manager.register(module)
        results = getattr(manager.hook, hook)(**arguments)
        return [item for result in results for item in items(result)]
    except (Exception, SystemExit) as error:
        raise InputError(f"{hook}: {type(error).__name__}: {error}", source=_origin(point)) from error


def _named_paths(result: Any) -> Iterator[tuple[str, Path]]:
    if not isinstance(result, Mapping):
        raise TypeError(f"gives a {type(result).__name__} for a mapping of names to paths")
    yield from result.items()


def _whole_sections(result: Any) -> Iterator[Section]:
    """The sections in ``result``, with what they hold in lists."""
    for section in result:
        if not isinstance(section, Section):
            raise TypeError(f"gives a {type(section).__name__} for a Section")
        yield Section(_text(section.title), _cells(section.head), [_cells(row) for row in section.rows])


def _cells(row: Any) -> list[str]:
    if isinstance(row, str):
        raise TypeError("has a text for a row of cells")
    return [_text(cell) for cell in row]


def _text(cell: Any) -> str:
    if not isinstance(cell, str):
        raise TypeError(f"has a {type(cell).__name__} for the text of a cell")
    return cell


def _import(point: metadata.EntryPoint) -> ModuleType:
    try:
        return importlib.import_module(point.module)
    except (Exception, SystemExit) as error:
        raise InputError(
            f"cannot be imported: {type(error).__name__}: {error}", source=_origin(point)
        ) from error


def _origin(point: metadata.EntryPoint) -> str:
    owner = f" of {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"plugin {point.name}{owner}"
