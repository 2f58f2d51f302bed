"""Loading a scenario's samples: checked against what the scenario says, rebuilt from evidence."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.tables import read_table, schema, write_table
from fairmark.samples import source
from fairmark.samples.cache import cache_folder
from fairmark.samples.content import content_sha256
from fairmark.samples.library import SampleLibrary, load_library
from fairmark.scenario.model import Generation, Samples

GENERATION = Generation(max_output_tokens=32)
GSM8K = Samples("fairmark:gsm8k-test", "question", reference="answer")
GSM8K_CONTENT = "32c548f08195e19e33408b844dd7be6aa4bcae457d957bc05909ff4bd4a00595"


def library(folder: Path, rows: list[dict[str, Any]], **spec: Any) -> SampleLibrary:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return load_library(Samples("rows.jsonl", "q", **spec), GENERATION, base=folder)


@pytest.mark.usefixtures("cached")
def test_the_embedded_gsm8k_test_split() -> None:
    found = load_library(GSM8K, GENERATION, base=Path())
    assert len(found) == 1319
    assert found.content_sha256 == GSM8K_CONTENT
    assert [(f.name, f.sha256) for f in found.files] == [
        ("gsm8k-test.jsonl", "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14")
    ]
    first = found.sample(0)
    assert first.index == 0
    assert first.prompt == [{"role": "user", "content": first.data["question"]}]
    assert first.data["question"].startswith("Janet’s ducks lay 16 eggs per day.")
    assert first.reference is not None
    assert first.reference.endswith("#### 18")
    assert first.generation is GENERATION


def test_the_digest_of_gsm8k_by_the_standard_library() -> None:
    # For rows of strings without control characters, json.dumps can write the form of RFC 8785.
    with source.EMBEDDED["gsm8k-test"].open_path() as path:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    form = {"ensure_ascii": False, "separators": (",", ":"), "sort_keys": True}
    text = "".join(json.dumps({k: r[k] for k in ("question", "answer")}, **form) + "\n" for r in rows)
    assert hashlib.sha256(text.encode()).hexdigest() == GSM8K_CONTENT


@pytest.mark.usefixtures("cached")
def test_facts_are_what_the_run_record_holds() -> None:
    found = load_library(GSM8K, GENERATION, base=Path())
    assert found.facts() == {
        "source": "fairmark:gsm8k-test",
        "rows": 1319,
        "content_sha256": GSM8K_CONTENT,
        "pinned_sha256": None,
        "files": [
            {
                "name": "gsm8k-test.jsonl",
                "sha256": "3730d312f6e3440559ace48831e51066acaca737f6eabec99bccb9e4b3c39d14",
            }
        ],
    }


@pytest.mark.usefixtures("cached")
def test_the_evidence_table_rebuilds_the_library(tmp_path: Path) -> None:
    found = load_library(GSM8K, GENERATION, base=Path())
    assert found.to_table().schema.equals(schema("samples"))
    write_table(found.to_table(), tmp_path / "samples.parquet")
    table = read_table("samples", tmp_path / "samples.parquet")
    assert SampleLibrary.from_table(table, GSM8K, GENERATION, files=found.files) == found


@pytest.mark.parametrize(
    ("index", "row", "message"),
    [
        ([0, 2], ['{"q":"a"}', '{"q":"b"}'], "does not count from 0"),
        ([0], ['{"q": "a"}'], "row 0 is not the RFC 8785 JSON"),
        ([0], ['{"q":"a","x":1}'], "row 0 is not the RFC 8785 JSON"),
        ([0], ['{"x":"a"}'], "row 0 is not the JSON of a sample"),
        ([0], ["{"], "row 0 is not the JSON of a sample"),
        ([0], ['{"q":NaN}'], "row 0 is not the JSON of a sample"),
        ([0], [None], "row 0 is not the RFC 8785 JSON"),
    ],
)
def test_a_tampered_evidence_table_is_refused(index: list[int], row: list[str | None], message: str) -> None:
    table = pa.table({"index": pa.array(index, pa.int64()), "row": pa.array(row, pa.string())})
    with pytest.raises(EvidenceError, match=message):
        SampleLibrary.from_table(table, Samples("rows.jsonl", "q"), GENERATION)


def test_a_changed_row_changes_the_digest_of_the_table() -> None:
    def digest(text: str) -> str:
        table = pa.table({"index": pa.array([0], pa.int64()), "row": pa.array([f'{{"q":"{text}"}}'])})
        return SampleLibrary.from_table(table, Samples("r.jsonl", "q"), GENERATION).content_sha256

    assert digest("a") == content_sha256([{"q": "a"}], ["q"])
    assert digest("b") != digest("a")


@pytest.mark.usefixtures("in_process")
def test_large_floats_survive_the_evidence_table(tmp_path: Path) -> None:
    found = library(tmp_path, [{"q": [2.0**60]}], input="data")
    again = SampleLibrary.from_table(found.to_table(), found.spec, GENERATION, files=found.files)
    assert again == found


@pytest.mark.usefixtures("in_process")
class TestInputKinds:
    CHAT = ({"role": "system", "content": "s"}, {"role": "user", "content": "u"})

    def test_a_message_list_is_used_as_it_is(self, tmp_path: Path) -> None:
        assert library(tmp_path, [{"q": list(self.CHAT)}]).sample(0).prompt == list(self.CHAT)

    def test_text_is_plain(self, tmp_path: Path) -> None:
        assert library(tmp_path, [{"q": "hi"}], input="text").sample(0).prompt == "hi"

    def test_token_ids_are_ids(self, tmp_path: Path) -> None:
        sample = library(tmp_path, [{"q": [1, 2, 3]}], input="token_ids").sample(0)
        assert (sample.prompt, sample.token_ids) == (None, (1, 2, 3))

    def test_data_stays_data(self, tmp_path: Path) -> None:
        sample = library(tmp_path, [{"q": {"pixels": [0.5]}, "a": 7}], input="data", reference="a").sample(0)
        assert (sample.prompt, sample.data["q"], sample.reference) == (None, {"pixels": [0.5]}, "7")

    def test_a_missing_reference_is_none(self, tmp_path: Path) -> None:
        assert library(tmp_path, [{"q": "x", "a": None}], reference="a").sample(0).reference is None

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("messages", 5),
            ("messages", None),
            ("messages", []),
            ("messages", [{"role": "user"}]),
            ("text", [{"role": "user", "content": "u"}]),
            ("token_ids", "text"),
            ("token_ids", [1, -2]),
            ("token_ids", [True]),
            ("data", None),
        ],
    )
    def test_other_prompts_are_refused_with_their_row(self, tmp_path: Path, kind: str, value: Any) -> None:
        good = {"messages": "x", "text": "x", "token_ids": [1], "data": "x"}[kind]
        with pytest.raises(InputError, match=r"samples\.prompt: row 2 of rows\.jsonl") as raised:
            library(tmp_path, [{"q": good}, {"q": value}], input=kind)
        assert f'input = "{kind}"' in str(raised.value)

    def test_indices_outside_are_errors(self, tmp_path: Path) -> None:
        found = library(tmp_path, [{"q": "x"}])
        for index in (-1, 1):
            with pytest.raises(IndexError):
                found.sample(index)


@pytest.mark.usefixtures("in_process")
class TestRefusals:
    def test_another_digest_than_the_pin_shows_both_and_the_line_to_write(self, tmp_path: Path) -> None:
        found = content_sha256([{"q": "x"}], ["q"])
        with pytest.raises(InputError) as raised:
            library(tmp_path, [{"q": "x"}], sha256="0" * 64)
        message = str(raised.value)
        assert "0" * 64 in message
        assert f'sha256 = "{found}"' in message
        assert message.startswith("samples.sha256: ")

    def test_the_pinned_digest_is_accepted(self, tmp_path: Path) -> None:
        pin = content_sha256([{"q": "x"}], ["q"])
        assert library(tmp_path, [{"q": "x", "more": 1}], sha256=pin).facts()["pinned_sha256"] == pin

    def test_an_empty_data_set(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"samples\.source: has no rows"):
            library(tmp_path, [])

    @pytest.mark.parametrize("field", ["performance_sample_count", "accuracy_sample_count"])
    def test_counts_above_the_rows(self, tmp_path: Path, field: str) -> None:
        with pytest.raises(
            InputError, match=rf"samples\.{field}: is more than the 1 rows .*accepted: 1 to 1"
        ):
            library(tmp_path, [{"q": "x"}], **{field: 2})

    def test_a_missing_column(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no column 'q'; accepted: 'question'"):
            library(tmp_path, [{"question": "x"}])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("fairmark:mmlu", "accepted: fairmark:gsm8k-test"),
            ("none.jsonl", "does not exist"),
            ("folder.csv", "is a folder"),
            ("rows.txt", r"accepted: \.jsonl, \.jsonl\.gz, \.csv, \.parquet"),
            ("hub:openai/gsm8k", "needs a revision"),
            ("hub:openai/gsm8k@main", "a branch or tag can move"),
            ("hub:openai/gsm8k@" + "a" * 39, "40 hexadecimal digits"),
        ],
    )
    def test_sources_that_cannot_be_used(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "folder.csv").mkdir()
        with pytest.raises(InputError, match=message):
            load_library(Samples(text, "q"), GENERATION, base=tmp_path)

    def test_an_embedded_file_that_was_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        changed = source.EmbeddedSource("gsm8k-test.jsonl", "f" * 64)
        monkeypatch.setitem(source.EMBEDDED, "gsm8k-test", changed)  # type: ignore[misc]
        with pytest.raises(InputError, match="released with " + "f" * 64):
            load_library(GSM8K, GENERATION, base=Path())


def test_a_malformed_row_comes_out_of_the_preparing_process_with_its_line(
    tmp_path: Path, cached: Path
) -> None:
    (tmp_path / "bad.jsonl").write_text('{"q":"x"}\n{"q":\n')
    with pytest.raises(InputError) as raised:
        load_library(Samples("bad.jsonl", "q"), GENERATION, base=tmp_path)
    assert (raised.value.source, raised.value.line) == ("bad.jsonl", 2)


class TestCache:
    def entries(self, folder: Path) -> list[Path]:
        return sorted((folder / "samples").iterdir())

    def test_where_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/x")
        monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
        monkeypatch.setenv("FAIRMARK_CACHE", "/own")
        assert cache_folder() == Path("/own")
        monkeypatch.delenv("FAIRMARK_CACHE")
        assert cache_folder() == Path("/xdg/fairmark")
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path("/home/x/.cache/fairmark")

    def test_a_second_load_prepares_nothing(
        self, tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = library(tmp_path, [{"q": "x"}])
        monkeypatch.setattr(subprocess, "Popen", None)
        assert load_library(first.spec, GENERATION, base=tmp_path) == first

    def test_a_file_rewritten_with_equal_size_and_time_is_read_again(
        self, tmp_path: Path, fresh_cache: Path
    ) -> None:
        import os

        first = library(tmp_path, [{"q": "x"}])
        stamp = (tmp_path / "rows.jsonl").stat().st_mtime_ns
        (tmp_path / "rows.jsonl").write_text(json.dumps({"q": "y"}) + "\n")
        os.utime(tmp_path / "rows.jsonl", ns=(stamp, stamp))
        second = load_library(first.spec, GENERATION, base=tmp_path)
        assert (first.row(0), second.row(0)) == ({"q": "x"}, {"q": "y"})

    def test_nothing_but_the_entry_is_left(self, tmp_path: Path, fresh_cache: Path) -> None:
        library(tmp_path, [{"q": "x"}])
        assert [path.suffix for path in self.entries(fresh_cache)] == [".parquet"]

    def test_a_failed_preparation_leaves_nothing(self, tmp_path: Path, fresh_cache: Path) -> None:
        with pytest.raises(InputError):
            library(tmp_path, [{"question": "x"}])
        assert self.entries(fresh_cache) == []

    @pytest.mark.parametrize("damage", ["truncated", "other rows"])
    def test_a_damaged_entry_is_prepared_again(self, tmp_path: Path, fresh_cache: Path, damage: str) -> None:
        first = library(tmp_path, [{"q": "x"}])
        (entry,) = self.entries(fresh_cache)
        if damage == "truncated":
            entry.write_bytes(entry.read_bytes()[:-8])
        else:
            table = pq.read_table(entry)
            changed = table.set_column(1, "row", pa.array(['{"q":"z"}']))
            pq.write_table(changed, entry)
        assert load_library(first.spec, GENERATION, base=tmp_path) == first

    def test_a_cache_that_cannot_be_written_names_the_variable(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "file"))
        with pytest.raises(InputError, match="a writable folder in FAIRMARK_CACHE"):
            library(tmp_path, [{"q": "x"}])

    def test_progress_is_told_while_preparing(self, tmp_path: Path, fresh_cache: Path) -> None:
        (tmp_path / "rows.jsonl").write_text('{"q":"x"}\n' * 2500)
        told: list[int] = []
        load_library(Samples("rows.jsonl", "q"), GENERATION, base=tmp_path, progress=told.append)
        assert told == [1000, 2000]

    def test_the_loading_process_never_imports_datasets(self, tmp_path: Path, fresh_cache: Path) -> None:
        program = (
            "import sys; from pathlib import Path\n"
            "from fairmark.samples.library import load_library\n"
            "from fairmark.scenario.model import Generation, Samples\n"
            "load_library(Samples('fairmark:gsm8k-test', 'question'), Generation(), base=Path())\n"
            "print([m for m in ('datasets', 'huggingface_hub') if m in sys.modules])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stdout == "[]\n"

    def test_a_datasets_module_in_the_working_folder_is_not_imported(
        self, tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "datasets.py").write_text("raise SystemExit('shadowed')")
        monkeypatch.chdir(tmp_path)
        assert len(library(tmp_path, [{"q": "x"}])) == 1


def test_a_crash_of_the_preparing_process_is_not_mistaken_for_bad_input(
    tmp_path: Path, fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "datasets.py").write_text("raise SystemExit('no datasets here')")
    with pytest.raises(RuntimeError, match="no datasets here"):
        library(tmp_path, [{"q": "x"}])
