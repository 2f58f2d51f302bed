"""``python -m benchmarks.install_peers [NAME…]``: the peers, each into an environment of its own.

What is not on PyPI is installed from a checkout in ``benchmarks/.peers/<name>-src``, if there is one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.peers import FOLDER, PEERS, Peer

__all__ = ["main"]


def install(peer: Peer) -> str | None:
    """Install ``peer`` if it is not there; the reason why not, or None."""
    if peer.path.exists():
        return None
    source = FOLDER / f"{peer.name}-src"
    requirement = peer.requirement or (str(source) if source.is_dir() else None)
    if requirement is None:
        return f"it is not on PyPI, and there is no checkout of it in {source.relative_to(FOLDER.parents[1])}"
    home = FOLDER / peer.name
    subprocess.run([_python(), "-m", "venv", "--clear", str(home)], check=True)
    command = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", requirement]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"pip failed: {done.stderr.strip().splitlines()[-1:]}"
    return None if peer.path.exists() else f"{requirement} installs no program {peer.program}"


def _python() -> str:
    """Python 3.12 if there is one that runs, as some peers need it; else ours."""
    found = shutil.which("python3.12")
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode != 0:
        return sys.executable
    return found


def main(names: Sequence[str]) -> None:
    """Install the peers ``names``, or all; one that cannot be installed is left out and named."""
    for peer in PEERS:
        if names and peer.name not in names:
            continue
        print(f"{peer.name}: {install(peer) or 'installed'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
