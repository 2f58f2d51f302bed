"""``fairmark sut new``: what it writes installs into an empty environment and passes the kit as written."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from fairmark.errors import InputError
from fairmark.sut.new import NewShape, new_plugin

SHAPES: tuple[NewShape, ...] = ("sync", "async", "batch", "callback")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("My", "is not a name for a plugin"),
        ("my_engine", "is not a name for a plugin"),
        ("-x", "is not a name for a plugin"),
        ("../up", "is not a name for a plugin"),
        ("numpy", "is the name of a module that is there already"),
        ("class", "is the name of a module that is there already"),
        ("sim-http", "is the name of an installed plugin"),
    ],
)
def test_a_bad_name_is_refused(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        new_plugin(name, "sync", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "acme-one").mkdir()
    with pytest.raises(InputError, match="exists already"):
        new_plugin("acme-one", "sync", tmp_path)
    assert list((tmp_path / "acme-one").iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be made: No such file or directory"):
        new_plugin("acme-one", "sync", tmp_path / "none")


def test_every_file_of_it_is_python_or_says_what_it_is(tmp_path: Path) -> None:
    for shape in SHAPES:
        folder = new_plugin(f"acme-{shape}", shape, tmp_path)
        for path in folder.rglob("*.py"):
            compile(path.read_text(), path.name, "exec")
        assert not [p for p in folder.rglob("*") if p.is_file() and "$" in p.read_text()]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a fresh environment that sees the packages of this one."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    shared = sysconfig.get_path("purelib")
    Path(own, "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    return python


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_a_new_plugin_installs_and_passes_the_kit_as_written(
    shape: NewShape, environment: Path, tmp_path: Path
) -> None:
    folder = new_plugin(f"acme-{shape}", shape, tmp_path)
    install = [environment, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    subprocess.run([*install, "--no-build-isolation", folder], check=True, capture_output=True, timeout=200)
    command = [environment, "-m", "fairmark", "sut", "check", f"acme-{shape}", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["counts"]["fail"] == 0
    outcomes = {check["id"]: check["outcome"] for check in found["checks"]}
    assert {outcomes[name] for name in ("answers", "own-answers", "stop-sequences", "one-token")} == {"pass"}


@pytest.mark.slow
def test_its_own_tests_pass(environment: Path, tmp_path: Path) -> None:
    folder = new_plugin("acme-tested", "sync", tmp_path)
    install = [environment, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    subprocess.run([*install, "--no-build-isolation", folder], check=True, capture_output=True, timeout=200)
    command = [environment, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout
