"""The server process: llama.cpp's HTTP server from the ``xllamacpp`` wheel, until it is told to stop.

Run as ``python -m fairmark_llamacpp.server CONFIG``, with CONFIG a JSON object. The first line on standard
output is the address it listens on; llama.cpp's log follows on standard error.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading

PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    """Ask the kernel to stop this process when its parent goes, however it goes (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    config = json.loads(sys.argv[1])
    _die_with_parent()
    if config["cores"]:
        os.sched_setaffinity(0, config["cores"])

    import xllamacpp  # type: ignore[import-untyped]

    params = xllamacpp.CommonParams()
    params.model.path = config["model"]
    params.model_alias = {config["alias"]}
    params.n_parallel = config["slots"]
    params.n_ctx = config["context_tokens"] * config["slots"]
    params.cpuparams.n_threads = config["threads"]
    params.cpuparams_batch.n_threads = config["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = config["port"]
    params.endpoint_metrics = True
    if config["embeddings"]:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    server = xllamacpp.Server(params)
    print(json.dumps({"address": server.listening_address}), flush=True)
    stop.wait()
    # The server's own teardown can wait for slots in mid-generation; the run has drained by now.
    os._exit(0)


if __name__ == "__main__":
    main()
