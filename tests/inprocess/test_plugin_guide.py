"""The plugin guide: each of its files runs as printed, and it knows every failure and breach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairmark.cli import cli
from fairmark.errors import InputError
from fairmark.evidence.columns import FAILURES
from fairmark.evidence.recorded import VIOLATIONS
from fairmark.sut.options import parse_options
from fairmark.sut.plugins import load_sut
from fairmark_sim import SimHttpSUT

GUIDE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")
FILES = {
    name: text
    for text in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    for name in re.findall(r'^def fairmark_suts.*\n    return \{"(.+?)":', text, re.MULTILINE)
}
SCENARIO = """
schema = "fairmark/scenario/1"
name = "guide"
benchmark = "guide"
scenario = "Server"
[model]
name = "guide"
[samples]
source = "samples.jsonl"
prompt = "question"
performance_sample_count = 16
[generation]
max_output_tokens = 16
[warmup]
queries = 2
steady = false
[run]
min_query_count = 24
query_timeout_s = 60
drain_timeout_s = 60
[constraints]
# So wide that no hiccup of a busy machine can count: the send lag may be 1 % of it.
percentile = 50
ttft_ms = 200000
[settings]
target_qps = 50
"""


@pytest.fixture
def port() -> Iterator[int]:
    sut = SimHttpSUT(SimHttpSUT.Options())
    sut.open()
    yield sut.endpoints()[0].port
    sut.close()


def test_the_guide_has_a_file_for_every_shape() -> None:
    assert sorted(FILES) == ["echo-async", "echo-batch", "echo-callback", "echo-sync", "served"]


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_of_the_guide_makes_a_valid_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("FAIRMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    rows = (json.dumps({"question": f"What is {n} plus {n}?"}) for n in range(32))
    Path("samples.jsonl").write_text("\n".join(rows) + "\n")
    Path("guide.toml").write_text(SCENARIO)
    plugin = Path(f"{name.replace('-', '_')}.py")
    plugin.write_text(FILES[name])
    options = ["-o", f"port={request.getfixturevalue('port')}"] if name == "served" else []
    asked = ["run", "guide.toml", "--sut", name, "-p", str(plugin), *options, "--out", "run", "--json"]
    found = CliRunner().invoke(cli, asked)
    assert found.exit_code == 0, found.output
    record = json.loads(Path("run/run.json").read_text())
    assert record["verdict"]["verdict"] == "VALID"
    # An engine that holds the interpreter's lock gets its queries from another process.
    expected = {"served": "network", "echo-sync": "subprocess", "echo-batch": "subprocess"}
    assert record["sut"]["isolation"] == expected.get(name, "in_process")
    assert record["metrics"]["performance"]["client"]["contract_violations"] == 0


def test_the_guide_lists_every_failure_and_every_breach() -> None:
    listed = re.search(r"^`kind` is one of a closed list: (.*?)\. The driver", GUIDE, re.M | re.S)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(FAILURES)
    rows = GUIDE.partition("## What is enforced")[2].partition("## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.M)) == set(VIOLATIONS)


MISTAKES = {
    "nothing = 1": "there is no such plugin (got 'mine'); accepted: http, ",
    "import fairmark\n@fairmark.hookimpl\ndef fairmark_suts(): return {'mine': 1}": "is not a SUT class",
    "import nosuch": "mine.py needs the module nosuch, which is not installed; ",
    "1 / 0": "mine.py cannot be imported: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("source", MISTAKES)
def test_a_file_that_cannot_be_used_is_refused_in_the_words_of_the_guide(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(source)
    with pytest.raises(InputError) as refused:
        load_sut("mine", ["mine.py"])
    assert MISTAKES[source] in str(refused.value)
    assert MISTAKES[source] in GUIDE


def test_a_wrong_option_is_refused_in_the_words_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "echo_sync.py").write_text(FILES["echo-sync"])
    cls = load_sut("echo-sync", [str(tmp_path / "echo_sync.py")])
    with pytest.raises(InputError) as refused:
        parse_options(cls.Options, ["words=x"], sut="echo-sync")
    said = "has the wrong type (got 'x'); accepted: int"
    assert str(refused.value).endswith(said)
    assert said in GUIDE
