"""Finding SUT plugins: by entry point, by module name, or by the path of a Python file.

Listing reads installed metadata only. Loading imports exactly the plugin that was asked for, so a broken
or heavy plugin never stands in another one's way.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pluggy

from fairmark.errors import InputError
from fairmark.sut import hooks
from fairmark.sut.api import SUT, AsyncSUT, BatchSUT, CallbackSUT, SyncSUT, WireSUT
from fairmark.sut.sim import SimSUT

__all__ = ["Plugin", "identity", "installed_plugins", "load_sut", "shapes"]

_SHAPES: Mapping[str, type[SUT]] = {
    "sync": SyncSUT,
    "async": AsyncSUT,
    "batch": BatchSUT,
    "callback": CallbackSUT,
    "wire": WireSUT,
    "sim": SimSUT,
}


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plugin, as its metadata describes it."""

    name: str
    module: str
    distribution: str
    version: str


def installed_plugins() -> list[Plugin]:
    """All plugins under the entry-point group ``fairmark``, by name, without importing any of them."""
    found = [
        Plugin(point.name, point.value, point.dist.name, point.dist.version)
        for point in metadata.entry_points(group=hooks.PROJECT)
        if point.dist is not None
    ]
    return sorted(found, key=lambda p: (p.name, p.distribution))


def load_sut(name: str, plugins: Sequence[str] = ()) -> type[SUT]:
    """The SUT class called ``name``, imported now.

    Args:
        name: the name of an installed plugin, or of a SUT that one of ``plugins`` provides.
        plugins: extra plugins, each a module name or the path of a Python file.

    Raises:
        InputError: there is no such SUT, two plugins claim the name, or the plugin cannot be imported; the
            message names the plugin and the reason.
    """
    available: dict[str, type[SUT]] = {}
    for extra in plugins:
        _merge(available, _suts_of(_import(extra)))
    if name in available:
        return available[name]
    return _load_installed(name, extra_names=sorted(available))


def _load_installed(name: str, extra_names: Sequence[str]) -> type[SUT]:
    candidates = [p for p in installed_plugins() if p.name == name]
    if not candidates:
        known = sorted({p.name for p in installed_plugins()} | set(extra_names))
        raise InputError("there is no such plugin", source="--sut", value=name, accepted=", ".join(known))
    if len(candidates) > 1:
        owners = " and ".join(f"{p.distribution} {p.version}" for p in candidates)
        raise InputError(f"the name is claimed by {owners}; uninstall one", source="--sut", value=name)
    plugin = candidates[0]
    provided = _suts_of(_import(plugin.module, origin=f"{plugin.distribution} {plugin.version}"))
    if name not in provided:
        raise InputError(
            f"the plugin module {plugin.module} of {plugin.distribution} does not provide it",
            source="--sut",
            value=name,
            accepted=f"one of {', '.join(provided)}"
            if provided
            else "a module whose fairmark_suts() names it",
        )
    return provided[name]


def _suts_of(module: ModuleType) -> dict[str, type[SUT]]:
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    manager.register(module)
    provided: dict[str, type[SUT]] = {}
    for mapping in manager.hook.fairmark_suts():
        _merge(provided, mapping)
    return provided


def _merge(into: dict[str, type[SUT]], provided: Any) -> None:
    for name, cls in dict(provided).items():
        if not (isinstance(cls, type) and issubclass(cls, SUT)):
            raise InputError(f"the plugin's {name!r} is not a SUT class", source="--sut", value=repr(cls))
        if name in into and into[name] is not cls:
            raise InputError(
                f"two plugins provide it: {into[name].__module__} and {cls.__module__}",
                source="-p",
                value=name,
            )
        into[name] = cls


def _import(spec: str, origin: str | None = None) -> ModuleType:
    label = f"{spec} ({origin})" if origin else spec
    try:
        if spec.endswith(".py"):
            return _import_file(Path(spec))
        return importlib.import_module(spec)
    except ModuleNotFoundError as error:
        raise InputError(
            f"plugin {label} needs the module {error.name}, which is not installed",
            source="--sut" if origin else "-p",
            accepted=_install_hint(error.name),
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(
            f"plugin {label} cannot be imported: {type(error).__name__}: {error}",
            source="--sut" if origin else "-p",
        ) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError("there is no such file", source="-p", value=str(path))
    name = f"fairmark_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError("is not a Python file", source="-p", value=str(path))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _install_hint(module: str | None) -> str:
    """The extra of fairmark that brings ``module``, or the plain advice when there is none."""
    for requirement in metadata.requires(hooks.PROJECT) or ():
        name, _, marker = requirement.partition(";")
        extra = re.search(r"extra\s*==\s*[\"']([^\"']+)", marker)
        if extra and module and re.match(rf"{re.escape(module)}\b", name.strip(), re.IGNORECASE):
            return f"pip install 'fairmark[{extra[1]}]'"
    return f"pip install the package that provides {module}"


def shapes(cls: type[SUT]) -> list[str]:
    """The shapes that ``cls`` implements: sync, async, batch, callback, wire, sim."""
    return [name for name, shape in _SHAPES.items() if issubclass(cls, shape)]


def identity(cls: type[SUT]) -> dict[str, str | None]:
    """Where a SUT class comes from: distribution, version, module, and the digest of its source file."""
    top = cls.__module__.partition(".")[0]
    owners = metadata.packages_distributions().get(top, [])
    distribution = owners[0] if owners else None
    source = getattr(sys.modules.get(cls.__module__), "__file__", None)
    return {
        "distribution": distribution,
        "version": metadata.version(distribution) if distribution else None,
        "module": cls.__module__,
        "source_sha256": hashlib.sha256(Path(source).read_bytes()).hexdigest() if source else None,
    }
