"""What ``-o model=…`` may be, and what is said about anything else. Nothing is loaded here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairmark.errors import InputError
from fairmark.sut.options import parse_options
from fairmark_transformers import TransformersSUT
from fairmark_transformers.weights import find_checkpoint


def test_the_plugin_is_imported_without_torch() -> None:
    code = (
        "import sys, fairmark_transformers\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'huggingface_hub', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_folder_is_named_after_itself_and_digests_every_file_of_its_weights(tmp_path: Path) -> None:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "config.json").write_text("{}")
    for number in (2, 1):
        (tmp_path / "acme" / f"model-0000{number}-of-00002.safetensors").write_bytes(bytes([number]))
    (tmp_path / "acme" / "pytorch_model.bin").write_bytes(b"the same in an older format")
    found = find_checkpoint(str(tmp_path / "acme"), None)
    assert (found.name, found.gguf) == ("acme", None)
    assert found.weights_sha256() == [
        "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
        "dbc1b4c900ffe48d575b5da5c638040125f65db0fe3e24494b76ea986457d986",
    ]


def test_a_gguf_file_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "Acme.Q8_0.gguf").write_bytes(b"\x01")
    found = find_checkpoint(str(tmp_path / "Acme.Q8_0.gguf"), None)
    assert found.source["gguf_file"] == "Acme.Q8_0.gguf"
    assert found.source["pretrained_model_name_or_path"] == str(tmp_path)
    assert found.weights_sha256() == "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"


@pytest.mark.parametrize("name", ["nothing.gguf", "."])
def test_a_path_without_a_model_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InputError, match=r"model: there is no model here \(got .*\); accepted: a folder with"
    ):
        find_checkpoint(name, None)


def test_a_revision_belongs_to_hub_models(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="revision: belongs to models of the hub"):
        find_checkpoint(str(tmp_path), "main")


@pytest.mark.parametrize("option", ["max_batch=0", "threads=0", "task=speech", "dtype=int4", "pooling=max"])
def test_options_that_cannot_work_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=option.partition("=")[0]):
        parse_options(TransformersSUT.Options, [option], sut="transformers")
