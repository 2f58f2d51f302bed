"""What is installed: every package of the tree, and a wheel that works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def declared() -> dict[str, str]:
    """Package name -> folder, as pyproject.toml maps them."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = setuptools["package-dir"]
    return {
        name: folders.get(name, f"{folders['']}/{name.replace('.', '/')}") for name in setuptools["packages"]
    }


def test_every_package_of_the_tree_is_declared() -> None:
    found = {p.parent for top in ("harness", "suts") for p in (ROOT / top).rglob("__init__.py")}
    assert {ROOT / folder for folder in declared().values()} == found | {ROOT / "schemas", ROOT / "scenarios"}


def test_every_module_lies_in_a_declared_package() -> None:
    folders = {ROOT / folder for folder in declared().values()}
    modules = [p for top in ("harness", "suts") for p in (ROOT / top).rglob("*.py")]
    assert [p for p in modules if p.parent not in folders] == []


@pytest.mark.slow
def test_a_wheel_works_away_from_the_checkout(tmp_path: Path) -> None:
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
    ]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True, timeout=200)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=200)

    def fairmark(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        command = [sys.executable, "-m", "fairmark", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [sys.executable, "-c", "import fairmark; print(fairmark.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(site))
    assert "64 queries" in fairmark("plan", "smollm2-gsm8k-server")
    assert "llamacpp" in fairmark("sut", "list")
    assert "openai" in fairmark("sut", "describe", "http").lower()
    ran = fairmark(
        "run", "smollm2-gsm8k-offline", "--sut", "sim-http", "--set", "run.min_query_count=4", "--out", "run",
        "--set", "settings.target_qps=0.1", "--set", "accuracy.target=0", "-o", "ttft_ms=1",
    )  # fmt: skip
    assert ran.startswith("VALID")
    fairmark("report", "run", "--html", "report.html")
    assert fairmark("audit", "run").startswith("ok")
