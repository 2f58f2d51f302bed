"""Nothing fails on what is bundled, on the files of the plugin guide, and on an honest engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fairmark.conformance.check import Result
from fairmark_sim import SimHttpSUT

Examine = Callable[..., list[Result]]

GUIDE = (Path(__file__).parents[2] / "docs" / "plugins.md").read_text("utf-8")
FILES = {
    name: text
    for text in re.findall(r"^```python\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
    for name in re.findall(r'^def fairmark_suts.*\n    return \{"(.+?)":', text, re.MULTILINE)
}


def outcomes(found: list[Result]) -> dict[str, str]:
    """Of a system on which nothing fails, and nothing is left open."""
    assert [(r.id, r.found) for r in found if r.outcome in ("fail", "not_evaluable")] == []
    return {r.id: r.outcome for r in found}


@pytest.mark.slow
@pytest.mark.long
def test_a_good_engine_passes_everything_that_can_be_seen_of_it(examine: Examine) -> None:
    seen = outcomes(examine("good", plugin="good_plugin.py"))
    others = {name: outcome for name, outcome in seen.items() if outcome != "pass"}
    # It is so quick that a query may be over before it is given up.
    assert others.pop("given-up", "not_applicable") == "not_applicable"
    assert others == {"dead-engine": "not_applicable"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "api", ["chat", *(pytest.param(api, marks=pytest.mark.long) for api in ("completions", "responses"))]
)
def test_the_simulated_server_passes(api: str, examine: Examine) -> None:
    seen = outcomes(examine("sim-http", f"api={api}", "ttft_ms=2", "tpot_ms=3"))
    assert seen["stop-sequences"] == ("not_applicable" if api == "responses" else "pass")
    for name in ("answers", "own-answers", "one-token", "dead-engine", "streams", "close"):
        assert seen[name] == "pass", name


@pytest.mark.slow
@pytest.mark.long
def test_an_endpoint_that_someone_else_serves_passes(examine: Examine) -> None:
    server = SimHttpSUT(SimHttpSUT.Options(tpot_ms=1))
    server.open()
    try:
        port = server.endpoints()[0].port
        seen = outcomes(examine("http", f"base_url=http://127.0.0.1:{port}"))
        assert seen["dead-engine"] == "not_applicable"
        assert seen["own-answers"] == "pass"
        assert outcomes(examine("http", f"base_url=http://127.0.0.1:{port}", "stream=false"))
    finally:
        server.close()


@pytest.mark.parametrize("name", ["sim-queue", "sim-llm"])
def test_simulated_systems_pass_on_the_virtual_clock(name: str, examine: Examine) -> None:
    seen = outcomes(examine(name))
    assert seen["answers"] == seen["holds-concurrency"] == "pass"
    assert seen["ends-once"] == "not_applicable"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        name if name == "echo-async" else pytest.param(name, marks=pytest.mark.long)
        for name in sorted(FILES.keys() - {"served"})
    ],
)
def test_the_files_of_the_guide_pass(name: str, tmp_path: Path, examine: Examine) -> None:
    plugin = tmp_path / "from_the_guide.py"
    plugin.write_text(FILES[name])
    seen = outcomes(examine(name, plugin=plugin))
    assert seen["one-token"] == seen["own-answers"] == seen["described"] == "pass"


@pytest.mark.real
@pytest.mark.long
def test_llamacpp_passes(examine: Examine) -> None:
    seen = outcomes(examine("llamacpp", "slots=4", patience_s=120))
    for name in ("own-answers", "same-answers", "one-token", "stop-sequences", "streams", "dead-engine"):
        assert seen[name] == "pass", name
