"""The sandbox, with programs that behave and programs that do not."""

from __future__ import annotations

import gzip
import json
import os
import time
from importlib import resources
from pathlib import Path

import psutil
import pytest

from fairmark.measure.programs import program_of
from fairmark.study import sandbox
from fairmark.study.sandbox import locks, run_program


def problems():
    text = resources.files("fairmark.samples.data").joinpath("humaneval.jsonl.gz").read_bytes()
    return [json.loads(line) for line in gzip.decompress(text).splitlines()]


def test_humanevals_own_solutions_pass_and_their_neighbours_do_not():
    chosen = problems()[::20]
    for problem in chosen:
        name = problem["entry_point"]
        right = program_of(problem["prompt"], problem["canonical_solution"], problem["test"])
        assert right.endswith(f"check({name})\n")
        assert run_program(right), problem["task_id"]
        wrong = program_of(problem["prompt"], "    return None\n", problem["test"])
        assert not run_program(wrong), problem["task_id"]


@pytest.mark.parametrize(
    "program",
    [
        "raise ValueError",
        "raise SystemExit(0)",
        "import os; os._exit(0)",
        "def (",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "x = bytearray(1 << 31)",
        "print('a b c' * 1000); assert False",
    ],
)
def test_what_does_not_end_well_does_not_pass(program):
    assert not run_program(program)


def test_printing_is_no_matter():
    assert run_program("import sys; print('x' * 100_000); sys.stderr.write('y')")


def test_a_program_cannot_write_or_reach_the_network(tmp_path: Path):
    found = locks()
    victim = tmp_path / "kept"
    victim.write_text("kept")
    for verb in ("open(p, 'w').write('x')", "__import__('os').unlink(p)"):
        passed = run_program(f"p = {str(victim)!r}\n{verb}")
        assert not passed or not found.no_writing
    assert not found.no_writing or victim.read_text() == "kept"
    reach = "import socket\nsocket.create_connection(('127.0.0.1', {}), 2)"
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        passed = run_program(reach.format(server.getsockname()[1]))
    assert passed != found.no_network


def test_an_endless_program_is_ended_with_all_it_started(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sandbox, "_WALL_SECONDS", 1.5)
    before = {p.pid for p in psutil.Process(os.getpid()).children(recursive=True)}
    assert not run_program("import time\nwhile True: time.sleep(1)")
    time.sleep(0.1)
    assert {p.pid for p in psutil.Process(os.getpid()).children(recursive=True)} <= before


def test_the_environment_is_empty():
    assert run_program("import os; assert set(os.environ) <= {'PYTHONHASHSEED', 'LC_CTYPE'}, os.environ")
