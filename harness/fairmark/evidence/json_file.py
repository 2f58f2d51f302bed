"""JSON files that are there whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairmark.errors import EvidenceError

__all__ = ["read_json", "write_json"]


def write_json(path: Path, content: Any) -> None:
    """Write strict, readable JSON; the file appears whole or not at all."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    draft = path.with_name(f"{path.name}.part")
    draft.write_text(f"{text}\n", encoding="utf-8")
    draft.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that `write_json` wrote.

    Raises:
        EvidenceError: the file is missing or is not JSON.
    """
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EvidenceError(f"{path}: not readable ({error})") from error
    return content
