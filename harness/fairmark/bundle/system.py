"""The system description: what hardware and software the numbers belong to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fairmark.bundle.documents import parse_json, schema_violation
from fairmark.errors import InputError

__all__ = ["SYSTEM", "checked_system", "default_system", "load_system"]

SYSTEM: Final = "system.json"
"""The description's name at the root of a bundle."""


def load_system(path: Path) -> dict[str, Any]:
    """Read a system description.

    Raises:
        InputError: the file cannot be read or breaks schemas/system.schema.json.
    """
    try:
        document = parse_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from error
    except ValueError as error:
        raise InputError(f"is not JSON: {error}", source=path) from error
    return checked_system(document, source=str(path))


def checked_system(document: Any, *, source: str) -> dict[str, Any]:
    """``document``, if it is a system description.

    Raises:
        InputError: it breaks schemas/system.schema.json; the message names the field.
    """
    broken = schema_violation(document, "system.schema.json")
    if broken is not None:
        raise InputError(broken[1], source=source, field=broken[0], accepted="see schemas/system.schema.json")
    return dict(document)


def default_system(environment: Mapping[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """A description of the one host that a run saw, for submitters who give none.

    Only what was observed enters: the host from ``environment`` (``evidence/environment.json``), the engine
    from the SUT's claims in ``record``. A SUT on another machine has to be described by its submitter.
    """
    before, claims = environment["before"], record["sut"]["claims"]
    cpu = before["cpu_model"] or before["machine"]
    engine = claims.get("engine") or record["sut"]["name"]
    host = {
        "cpu": cpu,
        "physical_cores": before["cores_physical"],
        "logical_cores": before["cores_logical"],
        "memory_bytes": before["memory_bytes"],
    }
    software = {
        "engine": claims.get("engine"),
        "engine_version": claims.get("version"),
        "operating_system": f"{before['system']} {before['kernel']}",
        "python": before["python"],
    }
    return {
        "schema": "fairmark/system/1",
        "name": _folder_name(f"{before['cores_logical']}x-{cpu}-{engine}"),
        "description": "Made from what fairmark observed on the host that drove the runs.",
        "nodes": 1,
        "host": {key: value for key, value in host.items() if value is not None},
        "software": {key: str(value) for key, value in software.items() if value is not None},
    }


def _folder_name(text: str) -> str:
    words = re.sub(r"\([^)]*\)|@.*?Hz", " ", text).lower()
    return re.sub(r"[^a-z0-9.]+", "-", words)[:64].strip("-.")
