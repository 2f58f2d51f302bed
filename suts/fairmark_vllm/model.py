"""The model's folder: found, named and digested without loading it; and what is asked of the model."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

import fairmark

__all__ = ["NEUTRAL_SAMPLING", "find_model", "weights_sha256"]

_WEIGHTS: Final = ("*.safetensors", "*.bin", "*.pt")

NEUTRAL_SAMPLING: Final = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": 0.0,
}
"""A checkpoint's own sampling defaults would be added to what the scenario asks for."""


def find_model(text: str) -> Path:
    """The folder that ``text`` means.

    Raises:
        InputError: it is not the folder of a model.
    """
    folder = Path(text)
    if not (folder / "config.json").is_file():
        raise fairmark.InputError(
            "there is no model here",
            source="-o",
            field="model",
            value=text,
            accepted="a folder with config.json, weights and tokenizer; one from the hub is made with "
            "`hf download ID --revision COMMIT --local-dir FOLDER`",
        )
    return folder.resolve()


def weights_sha256(folder: Path) -> str | list[str] | None:
    """The digest of the weights' file; a list in the order of their names where there are several."""
    files: list[Path] = next((found for p in _WEIGHTS if (found := sorted(folder.glob(p)))), [])
    digests = [_sha256(path) for path in files]
    return digests[0] if len(digests) == 1 else digests or None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
