"""What a plugin raises or gives wrongly before a run is its failure, in one line, with exit code 3."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import fairmark
from fairmark.cli import cli
from fairmark.errors import InputError, SutError
from fairmark.sut.asking import ask, claims_of, endpoints_of

SCENARIO = """
schema = "fairmark/scenario/1"
name = "asked"
scenario = "SingleStream"
model = { name = "m" }
samples = { source = "samples.jsonl", prompt = "q" }
warmup = { queries = 0 }
run = { min_query_count = 1 }
settings = { target_qps = 1 }
"""
PLUGIN = """
import fairmark

class Server(fairmark.WireSUT):
    dialect, model = "openai-chat", "m"
    def __init__(self, options):
        super().__init__(options)
    def open(self):
        pass
    def endpoints(self):
        return [fairmark.Endpoint("127.0.0.1", 1, "/")]

@fairmark.hookimpl
def fairmark_suts():
    return {"server": Server}
"""


class Server(fairmark.WireSUT):
    dialect, model = "openai-chat", "m"

    def __init__(self, said: Any) -> None:
        self.said = said

    def describe(self) -> Mapping[str, Any]:
        said: Mapping[str, Any] = self.said
        return said

    def endpoints(self) -> Sequence[fairmark.Endpoint]:
        said: Sequence[fairmark.Endpoint] = self.said
        return said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("super().__init__(options)", "1 / 0", "the plugin: ZeroDivisionError: division by zero"),
        ("pass", "raise RuntimeError('no GPU')", "open: RuntimeError: no GPU"),
        ("pass", "raise SystemExit(0)", "open: SystemExit: 0"),
        ("return [fairmark", "1 / 0; [fairmark", "endpoints: ZeroDivisionError: division by zero"),
    ],
)
def test_a_wire_plugin_that_fails_before_a_run_is_exit_3_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, words: str
) -> None:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("samples.jsonl").write_text('{"q": "Why?"}\n')
    Path("asked.toml").write_text(SCENARIO)
    assert PLUGIN.count(old) == 1
    Path("server.py").write_text(PLUGIN.replace(old, new))
    done = CliRunner().invoke(
        cli, ["run", "asked.toml", "--sut", "server", "-p", "server.py", "--out", "run"]
    )
    assert isinstance(done.exception, SutError), (done.output, done.exception)
    assert str(done.exception) == words
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"load": float("nan")}, "describe: ValueError"),
        ({"at": object()}, "describe: TypeError"),
        (None, "describe"),
    ],
)
def test_claims_that_cannot_be_recorded_are_the_plugins_failure(claims: Any, words: str) -> None:
    with pytest.raises(SutError, match=words):
        claims_of(Server(claims))


def test_claims_are_plain_json() -> None:
    assert claims_of(Server({"sizes": (1, 2)})) == json.loads('{"sizes": [1, 2]}')


@pytest.mark.parametrize(
    ("given", "words"),
    [([], "no endpoint"), (["http://h"], "a str for an Endpoint"), (None, "endpoints: TypeError")],
)
def test_endpoints_that_are_none_are_the_plugins_failure(given: Any, words: str) -> None:
    with pytest.raises(SutError, match=words):
        endpoints_of(Server(given))


def test_what_a_plugin_explains_itself_stays_as_it_is() -> None:
    def explain() -> None:
        raise InputError("no", field="model")

    with pytest.raises(InputError, match="model: no"):
        ask("open", explain)
