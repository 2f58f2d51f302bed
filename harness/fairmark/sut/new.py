"""A plugin package to begin with: an entry point, one class, tests that run the conformance kit, a README."""

from __future__ import annotations

import importlib.util
import keyword
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Final, Literal, get_args

from fairmark.errors import InputError
from fairmark.sut.plugins import installed_plugins

__all__ = ["NewShape", "new_plugin"]

NewShape = Literal["sync", "async", "batch", "callback"]

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def new_plugin(name: str, shape: NewShape, parent: Path) -> Path:
    """Write the package ``name`` into a new folder of that name.

    Args:
        name: of the system, the package and the folder; the module has underscores for its hyphens.
        parent: where the folder is made.

    Returns:
        The folder.

    Raises:
        InputError: the name cannot be used or is taken, or the folder exists or cannot be made.
    """
    _check_name(name)
    folder = parent / name
    module = name.replace("-", "_")
    words = {
        "name": name,
        "module": module,
        "class_name": "".join(part.capitalize() for part in name.split("-")),
        "shape": shape,
    }
    try:
        folder.mkdir()
    except FileExistsError:
        raise InputError(
            "exists already", source="--dir", value=str(folder), accepted="a new folder"
        ) from None
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror}", source="--dir", value=str(folder)) from error
    for path, text in _files(shape, module, words).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def _check_name(name: str) -> None:
    accepted = "lower-case words of letters and digits, joined by hyphens, such as my-engine"
    if not _NAME.fullmatch(name):
        raise InputError("is not a name for a plugin", source="NAME", value=name, accepted=accepted)
    if keyword.iskeyword(name) or importlib.util.find_spec(name.replace("-", "_")) is not None:
        raise InputError(
            "is the name of a module that is there already",
            source="NAME",
            value=name,
            accepted="another name",
        )
    if any(plugin.name == name for plugin in installed_plugins()):
        raise InputError(
            "is the name of an installed plugin", source="NAME", value=name, accepted="another name"
        )


def _files(shape: NewShape, module: str, words: Mapping[str, str]) -> dict[str, str]:
    assert shape in get_args(NewShape)
    names = {
        "pyproject.toml": "pyproject.toml.txt",
        "README.md": "README.md.txt",
        f"{module}/__init__.py": "plugin.py.txt",
        f"{module}/engine.py": "engine.py.txt",
        f"{module}/sut.py": f"{shape}.py.txt",
        "tests/test_conformance.py": "test_conformance.py.txt",
    }
    templates = resources.files("fairmark.sut").joinpath("templates")
    return {
        path: Template(templates.joinpath(template).read_text("utf-8")).substitute(words)
        for path, template in names.items()
    }
