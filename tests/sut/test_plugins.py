"""Finding plugins without importing the others, and naming what is wrong with a broken one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairmark.errors import InputError
from fairmark.sut import plugins
from fairmark.sut.api import SyncSUT, WireSUT
from fairmark.sut.plugins import Plugin, identity, installed_plugins, load_sut, shapes

GOOD = """
import fairmark
class Echo(fairmark.SyncSUT):
    "Says it again."
    def generate(self, sample):
        yield fairmark.Chunk(str(sample.prompt))
        yield fairmark.Done()
@fairmark.hookimpl
def fairmark_suts():
    return {"echo": Echo}
"""


@pytest.fixture
def plugin_file(tmp_path: Path) -> Path:
    path = tmp_path / "echo_plugin.py"
    path.write_text(GOOD)
    return path


def test_the_bundled_plugins_are_installed() -> None:
    assert {"http", "llamacpp", "sim-http"} <= {p.name for p in installed_plugins()}


def test_listing_imports_no_plugin() -> None:
    code = (
        "import sys; from fairmark.sut.plugins import installed_plugins; installed_plugins();"
        "print([m for m in sys.modules if m.startswith('fairmark_')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_loading_one_plugin_does_not_import_the_others() -> None:
    code = (
        "import sys; from fairmark.sut.plugins import load_sut; load_sut('http');"
        "print(sorted({m.partition('.')[0] for m in sys.modules if m.startswith('fairmark_')}))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['fairmark_http']"


def test_a_plugin_from_a_file_is_loaded_and_identified(plugin_file: Path) -> None:
    cls = load_sut("echo", [str(plugin_file)])
    assert issubclass(cls, SyncSUT)
    assert shapes(cls) == ["sync"]
    found = identity(cls)
    assert found["distribution"] is None
    assert found["source_sha256"] is not None
    assert len(found["source_sha256"]) == 64


def test_a_bundled_plugin_is_identified_by_its_distribution() -> None:
    found = identity(load_sut("http"))
    assert found["distribution"] == "fairmark"
    assert shapes(load_sut("http")) == ["wire"]
    assert issubclass(load_sut("http"), WireSUT)


def test_an_unknown_name_lists_the_known_ones(plugin_file: Path) -> None:
    with pytest.raises(InputError, match=r"no such plugin.*'nope'.*echo, http, llamacpp") as caught:
        load_sut("nope", [str(plugin_file)])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import acme_engine_that_is_missing", "needs the module acme_engine_that_is_missing"),
        ("import xllamacpp_missing.sub", "needs the module xllamacpp_missing"),
        ("def broken(:", "SyntaxError"),
        (
            "import fairmark\n@fairmark.hookimpl\ndef fairmark_suts():\n    return {'echo': 3}",
            "is not a SUT class",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_the_reason(tmp_path: Path, source: str, words: str) -> None:
    path = tmp_path / "broken_plugin.py"
    path.write_text(source)
    with pytest.raises(InputError) as caught:
        load_sut("echo", [str(path)])
    assert words in str(caught.value)


def test_a_missing_file_and_a_missing_module_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        load_sut("echo", [str(tmp_path / "none.py")])
    with pytest.raises(InputError, match="no_such_module_at_all"):
        load_sut("echo", ["no_such_module_at_all"])


def test_two_plugins_with_one_name_clash(tmp_path: Path, plugin_file: Path) -> None:
    other = tmp_path / "echo_again.py"
    other.write_text(GOOD)
    with pytest.raises(InputError, match="two plugins provide it"):
        load_sut("echo", [str(plugin_file), str(other)])


def test_two_distributions_that_claim_a_name_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = [Plugin("acme", "a", "acme-one", "1"), Plugin("acme", "b", "acme-two", "2")]
    monkeypatch.setattr(plugins, "installed_plugins", lambda: twice)
    with pytest.raises(InputError, match=r"acme-one 1 and acme-two 2"):
        load_sut("acme")


def test_a_missing_extra_says_which_pip_install() -> None:
    assert plugins._install_hint("xllamacpp") == "pip install 'fairmark[llamacpp]'"
