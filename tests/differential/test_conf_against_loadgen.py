"""Random configuration files, read by LoadGen and by fairmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmark.errors import InputError
from fairmark.mlperf.conf import parse_conf, resolve
from fairmark.mlperf.settings import FIELDS

pytestmark = [pytest.mark.differential, pytest.mark.timeout(0)]

# The scaling factor is uninitialised memory until a file sets it, and mode is an enum to the bindings.
READ = [f.name for f in FIELDS if f.name not in ("mode", "token_latency_scaling_factor")]
NUMBER = st.one_of(
    st.integers(0, 10**6).map(str),
    st.floats(0, 1e6).map(repr),
    st.sampled_from(["0", "1", "2", "0x1F", "010", "08", "1e3", ".5", "5.", "+7", "18446744073709551615"]),
)
JUNK = st.sampled_from(
    ["", "# note", "#note", "key", "key =", "key value", "a.b.c = x", "a.b.c = 1 # c", "\t"]
)


@st.composite
def lines(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 30)) == 0:
        return draw(JUNK)
    model = draw(st.sampled_from(["*", "llama2-70b", "other"]))
    scenario = draw(st.sampled_from(["*", "Server", "SingleStream", "MultiStream", "Offline"]))
    key = draw(st.sampled_from([f.key for f in FIELDS if f.key not in ("mode", "max_async_queries")]))
    return f"{model}.{scenario}.{key} = {draw(NUMBER)}"


@settings(settings.get_profile("differential"))
@given(
    text=st.lists(lines(), max_size=12).map("\n".join),
    scenario=st.sampled_from(["Server", "SingleStream", "MultiStream", "Offline"]),
)
def test_configuration_files(
    loadgen: Any, tmp_path_factory: pytest.TempPathFactory, text: str, scenario: str
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "user.conf"
    path.write_text(text)
    answer = loadgen.ask(
        {"files": [["", 0], [str(path), 2]], "model": "llama2-70b", "scenario": scenario, "read": READ}
    )
    try:
        user = parse_conf(text.encode(), source="user.conf")
    except InputError:
        assert answer["codes"] == [0, -22]
        return
    assert answer["codes"] == [0, 0]
    resolved = resolve("llama2-70b", scenario, user=user)
    assert {name: resolved.values[name] for name in READ} == answer["values"]
