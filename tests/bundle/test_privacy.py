"""Nothing private leaves: what is found, and what is no find."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from fairmark.bundle.privacy import Identity, find_leaks
from fairmark.errors import InputError
from fairmark.evidence.tables import table, write_table

MACHINE = Identity(home="/home/ada", user="ada", host="lab-7.example")


def kinds(folder: Path, name: str, content: bytes, machine: Identity = MACHINE) -> list[str]:
    (folder / name).write_bytes(content)
    return [leak.what for leak in find_leaks(folder, [name], machine)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'{"path": "/home/ada/models"}', "the home folder of this machine"),
        (b"loading /mnt/models/x.gguf", "an absolute path"),
        (b"C:\\Users\\ada\\x", "an absolute path"),
        (b"ada@lab", "the user name of this machine"),
        (b'"user": "ada"', "the user name of this machine"),
        (b"listening on lab-7.example", "the host name of this machine"),
        (b'"Authorization": "Bearer abcdefgh12345678"', "an Authorization header"),
        (b"Set-Cookie: session=1", "a cookie"),
        (b"key hf_" + b"a" * 30, "an API key"),
        (b"-----BEGIN RSA PRIVATE KEY-----", "a private key"),
    ],
)
def test_what_is_private(content: bytes, what: str, tmp_path: Path) -> None:
    assert what in kinds(tmp_path, "log.txt", content)


@pytest.mark.parametrize(
    "content",
    [
        b"POST /v1/chat/completions",
        b"https://example.org/home/page",
        b"Canada and Adam",
        b"lab-77.example",
        b"scenarios/chat.toml",
        b"HTTP/1.1 200 OK\r\nSet-Cookie:xxxxxxxx\r\n\r\n",
    ],
)
def test_what_is_not(content: bytes, tmp_path: Path) -> None:
    assert kinds(tmp_path, "log.txt", content) == []


def test_ordinary_words_count_only_where_a_name_would_stand(tmp_path: Path) -> None:
    root = Identity(home="/root", user="root", host="server")
    assert kinds(tmp_path, "a.txt", b"the square root of 2", root) == []
    assert "the user name of this machine" in kinds(tmp_path, "a.txt", b"root@server", root)


def test_prompts_may_speak_of_paths_but_not_of_this_machine(tmp_path: Path) -> None:
    rows = {"index": [0, 1], "row": ['{"q":"Delete /var/log/x, user: ada"}', '{"q":"at /home/ada"}']}
    write_table(table("samples", rows), tmp_path / "samples.parquet")
    leaks = find_leaks(tmp_path, ["samples.parquet"], MACHINE)
    assert [leak.what for leak in leaks] == [
        "the home folder of this machine",
        "the user name of this machine",
    ]


def test_dictionary_columns_are_read(tmp_path: Path) -> None:
    write_table(
        table("telemetry", {"source": ["lab-7.example"], "t_ns": [0], "name": ["x"], "value": [0.0]}),
        tmp_path / "telemetry.parquet",
    )
    leaks = find_leaks(tmp_path, ["telemetry.parquet"], MACHINE)
    assert [leak.what for leak in leaks] == ["the host name of this machine"]


def test_wire_is_searched_uncompressed_and_across_blocks(tmp_path: Path) -> None:
    data = b"x" * ((1 << 20) - 6) + b" lab-7.example " + b"y" * 1000
    (tmp_path / "worker-0.zst").write_bytes(zstandard.compress(data))
    leaks = find_leaks(tmp_path, ["worker-0.zst"], MACHINE)
    assert [leak.what for leak in leaks] == ["the host name of this machine"]


def test_sealing_refuses_what_is_private_and_names_the_file(
    server_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fairmark.bundle import seal as seal_module

    monkeypatch.setattr(seal_module, "this_machine", lambda: Identity("/nowhere", "", "fairmark_sim"))
    with pytest.raises(InputError, match="the host name of this machine") as refused:
        seal_module.seal([server_run], tmp_path / "out", submitter="acme", division="open")
    assert refused.value.source in ("sums/Server/performance/run.json", "system.json")
    assert list((tmp_path / "out").iterdir()) == []
