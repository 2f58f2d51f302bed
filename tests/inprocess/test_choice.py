"""Which system is refused before anything runs, and who issues the queries of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import fairmark
from fairmark.drive.inprocess.plugin import Isolation, Shape, pick_isolation
from fairmark.errors import InputError
from fairmark.scenario.load import parse_scenario
from fairmark.study.run import choose_sut

PLUGIN = """
import fairmark

class Unfinished(fairmark.SyncSUT):
    def generates(self, sample):
        yield fairmark.Done()

@fairmark.hookimpl
def fairmark_suts():
    return {"unfinished": Unfinished}
"""
SCENARIO = """
schema = "fairmark/scenario/1"
name = "choice"
scenario = "SERVER"
model = { name = "m" }
samples = { source = "s.jsonl", prompt = "q" }
generation = { max_output_tokens = 1 }
settings = { target_qps = 1.0 }
"""


class Holding(fairmark.SyncSUT, fairmark.BatchSUT, fairmark.CallbackSUT):
    pass


class Releasing(Holding):
    holds_gil = False


def test_a_class_that_lacks_a_method_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "unfinished.py").write_text(PLUGIN)
    with pytest.raises(InputError, match="Unfinished does not implement generate") as refused:
        choose_sut("unfinished", (), [str(tmp_path / "unfinished.py")])
    assert "unfinished" in str(refused.value)


@pytest.mark.parametrize(
    ("cls", "shape", "kind", "isolation"),
    [
        (Holding, "sync", "Server", "subprocess"),
        (Holding, "batch", "Server", "subprocess"),
        (Holding, "callback", "Server", "in_process"),
        (Holding, "sync", "SingleStream", "in_process"),
        (Holding, "batch", "Offline", "in_process"),
        (Releasing, "sync", "Server", "in_process"),
    ],
)
def test_who_issues(cls: type[fairmark.SUT], shape: Shape, kind: str, isolation: Isolation) -> None:
    scenario = parse_scenario(SCENARIO.replace("SERVER", kind).encode(), source="choice.toml")
    assert pick_isolation(cls, shape, scenario) == isolation


def test_a_limit_on_what_is_outstanding_keeps_the_issuer_with_the_system() -> None:
    text = SCENARIO.replace("SERVER", "Server") + "run = { max_outstanding_queries = 5 }\n"
    scenario = parse_scenario(text.encode(), source="choice.toml")
    assert pick_isolation(Holding, "sync", scenario) == "in_process"
