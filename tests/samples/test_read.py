"""Reading files: what is in the file, exactly, or one line that says where it is broken."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.samples.content import content_sha256
from fairmark.samples.read import read_rows
from fairmark.samples.source import FileFormat

# Cells that CSV and JSON readers like to turn into something else.
NASTY = [
    {"q": "NA", "a": "2024-01-01"},
    {"q": "null", "a": "2024-01-02"},
    {"q": 'a "quoted", cell\r\nof two lines', "a": ""},
    {"q": " spaces kept ", "a": "1e5"},
    {"q": "line\u2028separator\x85and\x0btab", "a": "007"},
    {"q": "true", "a": "#comment"},
]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    name = path.name
    if name.endswith(".csv"):
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


def read(path: Path, columns: Sequence[str] = ("q", "a"), *, kind: FileFormat | None = None) -> list[Any]:
    found: FileFormat = "csv" if ".csv" in path.name else "parquet" if ".parquet" in path.name else "jsonl"
    cache = path.parent / f"cache-{len(list(path.parent.iterdir()))}"
    return list(read_rows(path, kind or found, columns, cache))


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.csv", "rows.parquet"])
def test_every_format_gives_the_same_rows_and_digest(tmp_path: Path, name: str) -> None:
    rows = read(write(tmp_path / name, NASTY))
    assert rows == NASTY
    assert content_sha256(rows, ["q", "a"]) == content_sha256(NASTY, ["q", "a"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries({"q": st.text(), "a": st.text()}),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([".jsonl", ".csv", ".parquet"]),
)
def test_any_text_survives_any_format(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]], suffix: str
) -> None:
    if suffix == ".csv":  # csv and pandas both end a cell at NUL
        rows = [{k: v.replace("\0", "") for k, v in row.items()} for row in rows]
    path = tmp_path_factory.mktemp("any") / f"rows{suffix}"
    assert read(write(path, rows)) == rows


def test_json_types_are_kept(tmp_path: Path) -> None:
    rows = [{"q": 1, "a": [1, "x", None]}, {"q": "1", "a": {"k": 1.5}}, {"q": None, "a": True}]
    assert read(write(tmp_path / "rows.jsonl", rows)) == rows


def test_numbers_in_csv_are_the_strings_they_are_written_as(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("q,a\n1.50,007\n,1e5\n")
    assert read(path) == [{"q": "1.50", "a": "007"}, {"q": "", "a": "1e5"}]


def test_a_byte_order_mark_is_not_content(tmp_path: Path) -> None:
    jsonl, table = tmp_path / "b.jsonl", tmp_path / "b.csv"
    jsonl.write_bytes(b'\xef\xbb\xbf{"q":"x","a":"y"}\n')
    table.write_bytes(b"\xef\xbb\xbfq,a\nx,y\n")
    assert read(jsonl) == read(table) == [{"q": "x", "a": "y"}]


def test_a_cell_longer_than_the_csv_modules_default_limit(tmp_path: Path) -> None:
    rows = [{"q": "x" * 200_000, "a": "y"}]
    assert read(write(tmp_path / "long.csv", rows)) == rows


def test_blank_lines_are_not_rows_but_count_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "b.jsonl"
    path.write_text('\n{"q":"x","a":"y"}\n\n{"q":1\n')
    with pytest.raises(InputError, match=r"b\.jsonl:4: is not a line of JSON"):
        read(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", b'{"q":"x","a":"y"}\n[1]\n', r"r\.jsonl:2: is list, not an object"),
        ("r.jsonl", b'{"q":"x","a":"y"}\n{"q":"x"}\n', r"r\.jsonl:2: this row has no 'a'"),
        ("r.jsonl", b'{"q":NaN,"a":"y"}\n', r"r\.jsonl:1: .*NaN is not JSON"),
        ("r.jsonl", b'{"q":"x","q":"z","a":""}\n', r"r\.jsonl:1: .*the key 'q' is there twice"),
        ("r.jsonl", b'{"q":' + b"[" * 100_000, r"r\.jsonl:1: "),
        ("r.jsonl", b'{"question":"x","answer":"y"}\n', r"no column 'q'; accepted: 'question', 'answer'"),
        ("r.jsonl", b'{"q":"\xff"}\n', r"r\.jsonl: is not UTF-8 text: .* at byte 6"),
        ("r.jsonl.gz", b"plain", r"r\.jsonl\.gz: cannot be read: Not a gzipped file"),
        ("r.csv", b"q,a\n1,2\n1,2,3\n", r"r\.csv:3: this record has 3 cells, the header has 2"),
        ("r.csv", b"q,a\n1,2,3\n1,2,3\n", r"r\.csv:2: this record has 3 cells, the header has 2"),
        ("r.csv", b"q,a\n1\n", r"r\.csv:2: this record has 1 cells, the header has 2"),
        ("r.csv", b'q,a\n"1,2\n', r"r\.csv:2: is not CSV: unexpected end of data"),
        ("r.csv", b"q,q\n1,2\n", r"r\.csv:1: the column 'q' is there twice"),
        ("r.csv", b"q,a\n\xff,1\n", r"r\.csv: is not UTF-8 text"),
        ("r.csv", b"x,y\n1,2\n", r"no column 'q'; accepted: 'x', 'y'"),
        ("r.csv", b"", r"is empty; accepted: rows with 'q', 'a'"),
        ("r.parquet", b"PAR1 and then nothing", r"r\.parquet: cannot be read: "),
    ],
)
def test_broken_files_are_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as raised:
        read(path)
    assert "\n" not in str(raised.value)
    assert str(tmp_path) not in str(raised.value)


def test_a_truncated_gzip_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl.gz", NASTY * 20_000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"rows\.jsonl\.gz: cannot be read: "):
        read(path)


def test_parquet_without_the_column_lists_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'z'; accepted: 'q', 'a'"):
        read(write(tmp_path / "r.parquet", NASTY), ["z"])


@pytest.mark.parametrize(("name", "content"), [("e.jsonl", b""), ("e.jsonl", b"\n\n"), ("e.csv", b"q,a\n")])
def test_files_without_rows_have_no_rows(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert read(path) == []


def test_parquet_without_rows_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    pq.write_table(pa.table({"q": pa.array([], pa.string()), "a": pa.array([], pa.string())}), path)
    assert read(path) == []
