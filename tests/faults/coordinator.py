"""Runs one job like the command line does: ``coordinator.py FOLDER OUT URL KIND [OVERRIDE ...]``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.errors import FairmarkError
from fairmark_http import HttpSUT

_FILE = Path(__file__).parents[1] / "drive" / "conftest.py"
_SPEC = importlib.util.spec_from_file_location("drive_bench", _FILE)
assert _SPEC is not None
assert _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
sys.modules["drive_bench"] = _MODULE
_SPEC.loader.exec_module(_MODULE)


def main(folder: str, out: str, url: str, kind: str, *overrides: str) -> None:
    """Print the stop reason, or the error."""
    sut = HttpSUT(HttpSUT.Options(base_url=(url,)))
    sut.open()
    job = _MODULE.Bench(Path(folder)).job(kind, sut, *overrides, out=Path(out), probe=False)
    try:
        with StopSignal() as stop:
            execute(job, progress=lambda _: None, stop=stop)
    except FairmarkError as error:
        print(f"{type(error).__name__}: {error}")
        sys.exit(error.exit_code)
    print("closed")


if __name__ == "__main__":
    main(*sys.argv[1:])
