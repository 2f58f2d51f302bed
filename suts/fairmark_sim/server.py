"""The simulated server as a process: ``python -m fairmark_sim.server --port 0 …``.

The first line on standard output is a JSON object with the address. It serves until SIGTERM or SIGINT.
It is a test instrument: the times and words of its answers are known exactly, and it breaks on demand.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from fairmark_sim.answers import Answers, read_answers
from fairmark_sim.arrivals import ArrivalLog
from fairmark_sim.connection import Connection
from fairmark_sim.engine import Engine, EngineParts
from fairmark_sim.faults import FAULTS, FaultPlan, FaultRule, parse_rule
from fairmark_sim.service import ServiceModel, Slots

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_BACKLOG = 4096


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop."""
    options = _parser().parse_args(arguments)
    if options.with_parent and sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if options.loop == "uvloop":
        import uvloop

        uvloop.run(_serve(options))
    else:
        asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    engine = Engine(_parts(options), loop, lambda: server.close())
    server = await loop.create_server(
        lambda: Connection(engine, engine.next_connection()),
        options.host,
        options.port,
        backlog=_BACKLOG,
        reuse_address=True,
    )
    host, port = server.sockets[0].getsockname()[:2]
    print(json.dumps({"address": f"http://{host}:{port}", "host": host, "port": port}), flush=True)
    # Nothing allocated at start ever dies, and a full collection would show up in the simulated times.
    gc.freeze()
    await stopped.wait()
    server.close()
    engine.abandon_all()


def _parts(options: argparse.Namespace) -> EngineParts:
    return EngineParts(
        model=options.model,
        service=ServiceModel(
            options.ttft_ms / 1e3, options.tpot_ms / 1e3, options.ttft_cv, options.tpot_cv, options.seed
        ),
        slots=Slots(options.servers),
        faults=FaultPlan(options.fault, options.seed),
        answers=Answers(options.output_tokens, read_answers(options.answers) if options.answers else {}),
        tokens_per_chunk=options.tokens_per_chunk,
        log=ArrivalLog(options.arrivals),
    )


def _parser() -> argparse.ArgumentParser:
    rules = "KIND[@rate=P|@every=N|@after=N|@marker=TEXT], or [[fault:KIND]] in a prompt"
    listed = "\n".join(f"  {kind:16} {text}" for kind, text in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="fairmark_sim.server",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"faults, each {rules}:\n{listed}",
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--model", default="sim", help="name of the model that is served")
    add("--ttft-ms", type=_positive, default=0.0, help="mean time to first token, without queueing")
    add("--ttft-cv", type=_positive, default=0.0, help="its coefficient of variation; log-normal")
    add("--tpot-ms", type=_positive, default=0.0, help="mean time between tokens")
    add("--tpot-cv", type=_positive, default=0.0, help="its coefficient of variation; log-normal")
    add("--servers", type=_count, help="requests served at once; default: all")
    add("--output-tokens", type=_count, default=16, help="length of an answer that --answers does not give")
    add("--tokens-per-chunk", type=_count, default=1)
    add("--answers", type=Path, help="JSON lines with `prompt` and `text`")
    add("--seed", type=int, default=0)
    add("--fault", type=_rule, action="append", default=[], metavar="RULE", help="see below; may be repeated")
    add("--arrivals", type=Path, help="append one JSON line per request to this file")
    add("--loop", choices=["asyncio", "uvloop"], default="asyncio")
    add("--with-parent", action="store_true", help="stop when the starting process goes (Linux)")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number of at least 0")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return value


def _rule(text: str) -> FaultRule:
    try:
        return parse_rule(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


if __name__ == "__main__":
    main()
