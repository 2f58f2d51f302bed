"""Reference outputs: the shipped file, its pin, and what is refused."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from pathlib import Path

import pytest

from fairmark.errors import InputError
from fairmark.samples.references import EMBEDDED_REFERENCES, Reference, load_references, parse_references
from fairmark.scenario.model import Accuracy

SHIPPED = "fairmark:smollm2-135m-gsm8k"


def accuracy(reference: str | None, sha256: str | None = None) -> Accuracy:
    return Accuracy("reference-agreement", 0.5, reference=reference, sha256=sha256)


def test_the_shipped_references_cover_every_question_of_gsm8k() -> None:
    data = load_references(accuracy(SHIPPED), base=Path())
    assert data is not None
    references = parse_references(data)
    assert list(references) == list(range(1319))
    assert references[0].first(6) == "Janet’s ducks lay"
    for line in data.splitlines():
        row = json.loads(line)
        assert len(row["ends"]) == len(row["token_ids"]) <= 32
        assert row["finish_reason"] == ("length" if len(row["token_ids"]) == 32 else "stop")


def test_the_readme_beside_the_file_names_its_digest() -> None:
    folder = resources.files("fairmark.scenarios").joinpath("references")
    text = folder.joinpath("README.md").read_text(encoding="utf-8")
    for name, digest in EMBEDDED_REFERENCES.items():
        assert f"## {name}.jsonl" in text
        assert digest in text


def test_the_pin_is_held() -> None:
    data = load_references(accuracy(SHIPPED), base=Path())
    assert data is not None
    pin = hashlib.sha256(data).hexdigest()
    assert load_references(accuracy(SHIPPED, pin), base=Path()) == data
    with pytest.raises(InputError, match=f'pins the digest {"0" * 64}.*the line: sha256 = "{pin}"'):
        load_references(accuracy(SHIPPED, "0" * 64), base=Path())


def test_no_reference_no_bytes() -> None:
    assert load_references(accuracy(None), base=Path()) is None


def test_a_path_starts_from_the_scenario_files_folder(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"index":0,"text":"a"}\n')
    data = load_references(accuracy("r.jsonl"), base=tmp_path)
    assert data == b'{"index":0,"text":"a"}\n'


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"accepted: {SHIPPED}"):
        load_references(accuracy("fairmark:none"), base=tmp_path)
    with pytest.raises(InputError, match=r"accuracy\.reference: cannot be read: No such file"):
        load_references(accuracy("none.jsonl"), base=tmp_path)


def test_the_first_tokens_of_a_reference() -> None:
    reference = Reference("One two three", (3, 7, 13))
    assert [reference.first(n) for n in (1, 2, 3, 9, None)] == [
        "One",
        "One two",
        "One two three",
        "One two three",
        "One two three",
    ]
    assert Reference("One two").first(1) == "One two"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there are no references"),
        (b"{", "line 1 is not a reference"),
        (b"[]", "line 1 is not a reference"),
        (b'{"index":0,"text":"a"}\n{"index":0,"text":"b"}', "line 2 has the index 0 of an earlier line"),
        (b'{"index":-1,"text":"a"}', "line 1 .*index is -1"),
        (b'{"index":true,"text":"a"}', "line 1 .*index is True"),
        (b'{"index":0,"text":null}', "line 1 .*text is NoneType"),
        (b'{"index":0}', "line 1 is not a reference"),
        (b'{"index":0,"text":"abc","ends":[2,1,3]}', "line 1 .*rising character counts"),
        (b'{"index":0,"text":"abc","ends":[1,2]}', "line 1 .*end with the text"),
        (b'{"index":0,"text":"abc","ends":3}', "line 1 is not a reference"),
        (b'{"index":0,"text":"\xff"}', "line 1 is not a reference"),
    ],
)
def test_malformed_references_are_refused_by_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_references(data)
    (tmp_path / "r.jsonl").write_bytes(data)
    with pytest.raises(InputError, match=message):
        load_references(accuracy("r.jsonl"), base=tmp_path)
