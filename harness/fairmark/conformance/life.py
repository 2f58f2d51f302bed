"""The process that watches one system's life: ``python -m fairmark.conformance.life ORDER``.

ORDER is a JSON object. Each step is reported as one JSON line, as soon as it is over, so that whoever listens
knows which one a silent system is in. What the system itself prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fairmark.conformance.hand import Hand

__all__ = ["HEAVY", "main"]

HEAVY: Final = (
    "cv2",
    "datasets",
    "jax",
    "llama_cpp",
    "onnxruntime",
    "openvino",
    "pandas",
    "pyarrow",
    "scipy",
    "sglang",
    "sklearn",
    "tensorflow",
    "tensorrt",
    "tensorrt_llm",
    "torch",
    "transformers",
    "vllm",
    "xllamacpp",
)
"""Packages that take long to import or take an accelerator."""

_LOADS: Final = 3
_SETTLE_S: Final = 0.1
_GONE_S: Final = 1.0
"""What was told to end in close may take so long to be gone."""

_NOT_ENGINES: Final = ("resource_tracker", "forkserver")
"""Children that Python's multiprocessing keeps for itself."""


class _StepError(Exception):
    """A step failed; nothing after it would mean anything."""


class Life:
    """Takes one system through its life.

    Args:
        order: what `fairmark.conformance.life_watch` writes.
        report: where the steps go.
    """

    def __init__(self, order: Mapping[str, Any], report: IO[str]) -> None:
        self._order = order
        self._report = report
        self._sut: Any = None
        self._hand: Hand | None = None
        self._threads: set[threading.Thread] = set()
        """Those that are not the system's."""

    def run(self) -> None:
        """All steps, in order. A system that was opened is closed in the end."""
        try:
            self._step("imported", self._import)
            if self._order["kind"] == "sim":
                self._step("described", self._describe)
                return
            self._step("opened", self._open)
            try:
                self._step("described", self._describe)
                if self._order["to_be_killed"]:
                    self._die()
                elif self._order["kind"] == "wire":
                    self._live_on_a_wire()
                else:
                    self._live_in_process()
            finally:
                self._step("closed", self._close)
        except _StepError:
            return
        finally:
            _kill(_children())

    def _step(self, name: str, call: Callable[[], Mapping[str, Any]]) -> None:
        try:
            seen: Mapping[str, Any] = call()
        except _StepError:
            raise
        # SystemExit out of a plugin is its failure too.
        except BaseException as error:
            self._say(name, {"error": f"{type(error).__name__}: {error}"})
            raise _StepError from error
        self._say(name, seen)

    def _say(self, name: str, seen: Mapping[str, Any]) -> None:
        print(json.dumps({"step": name, **seen}), file=self._report, flush=True)

    def _import(self) -> Mapping[str, Any]:
        from fairmark.sut.options import parse_options
        from fairmark.sut.plugins import load_sut

        before = set(sys.modules)
        cls = load_sut(self._order["name"], self._order["plugins"])
        brought = {name.partition(".")[0] for name in set(sys.modules) - before}
        self._sut = cls(parse_options(cls.Options, self._order["options"], sut=self._order["name"]))
        return {"heavy": sorted(brought & set(HEAVY))}

    def _open(self) -> Mapping[str, Any]:
        from pathlib import Path

        self._threads = set(threading.enumerate())
        self._sut.logs = Path(self._order["logs"])
        self._sut.open()
        return {}

    def _describe(self) -> Mapping[str, Any]:
        """Both answers as JSON texts, or why they have none."""
        first, second = (self._claims() for _ in range(2))
        return {"claims": first, "again": second}

    def _claims(self) -> str:
        return json.dumps(dict(self._sut.describe()), sort_keys=True, allow_nan=False)

    def _live_in_process(self) -> None:
        samples = self._samples(self._order["tokens"])
        hand = self._make_hand()
        self._step("loaded", lambda: self._load_twice(hand, samples))
        self._step("engines", lambda: {"processes": len(_children())})
        self._step("flushed", lambda: hand.flushed(samples))
        self._step("gave_up", lambda: {"given_up": hand.gave_up(samples), "after": hand.ask(samples[:2])})
        self._step("loading", self._time_loads)

    def _live_on_a_wire(self) -> None:
        from fairmark.conformance import wire_hand

        patience_s, sample = self._order["patience_s"], self._samples(self._order["tokens"])[0]
        self._step("engines", lambda: {"processes": len(_children())})
        self._step("gave_up", lambda: wire_hand.hang_up_then_ask(self._sut, sample, patience_s))

    def _die(self) -> None:
        """Ask, kill the processes that the system started, and ask again."""
        from fairmark.conformance import wire_hand

        samples = self._samples(self._order["tokens"])[:1]
        if self._order["kind"] == "wire":
            patience_s = self._order["patience_s"]
            self._kill_engine(lambda: wire_hand.ask(self._sut, samples[0], patience_s))
            return
        hand = self._make_hand()
        self._step("loaded", lambda: self._load(samples))
        self._kill_engine(lambda: hand.ask(samples))

    def _load(self, samples: Sequence[Any]) -> Mapping[str, Any]:
        self._sut.load(samples)
        return {}

    def _kill_engine(self, ask: Callable[[], Any]) -> None:
        # Some engines start with the first query.
        self._step("asked", lambda: {"answers": ask()})
        self._step("killed", lambda: {"processes": _kill(_children()), "answers": ask()})

    def _make_hand(self) -> Hand:
        # Here: it imports half of what the plugin may be found to import.
        from fairmark.conformance.hand import Hand

        self._hand = Hand(self._sut, self._order["shape"], self._order["patience_s"], self._flushing)
        return self._hand

    @contextlib.contextmanager
    def _flushing(self) -> Iterator[None]:
        """Around each flush, in whatever step: what it does wrong is its own fault."""
        self._say("flushing", {"over": False})
        try:
            yield
        except BaseException as error:
            self._say("flushed", {"error": f"{type(error).__name__}: {error}"})
            raise _StepError from error
        self._say("flushing", {"over": True})

    def _samples(self, tokens: int, variant: int = 0) -> list[Any]:
        """The questions; those of another ``variant`` are other questions."""
        from fairmark.samples.sample import Sample
        from fairmark.scenario.model import Generation

        asked = Generation(max_output_tokens=tokens)
        texts = [f"{text} ({variant})" if variant else text for text in self._order["questions"]]
        first = variant * len(texts)
        messages = [[{"role": "user", "content": text}] for text in texts]
        prompts: Sequence[Any] = texts if self._order["takes_text"] else messages
        return [
            Sample(first + index, {"question": text}, prompt, asked)
            for index, (text, prompt) in enumerate(zip(texts, prompts, strict=True))
        ]

    def _time_loads(self) -> Mapping[str, Any]:
        """What it takes to load samples when short and when long answers are asked for, in seconds."""
        self._sut.unload()
        variants = itertools.count(1)
        return {f"{tokens}": self._load_cost_s(tokens, variants) for tokens in (1, self._order["tokens"])}

    def _load_cost_s(self, tokens: int, variants: Iterator[int]) -> float:
        """The least of a few loads: time until it returns, or processor time until shortly after.

        Each is of questions that were not there before, for which nothing can have been kept.
        """
        costs: list[float] = []
        for variant in itertools.islice(variants, _LOADS):
            samples = self._samples(tokens, variant)
            cpu_s, start_s = _cpu_s(), time.monotonic()
            self._sut.load(samples)
            took_s = time.monotonic() - start_s
            time.sleep(_SETTLE_S)
            costs.append(max(took_s, _cpu_s() - cpu_s))
            self._sut.unload()
        return min(costs)

    def _load_twice(self, hand: Any, samples: Sequence[Any]) -> Mapping[str, Any]:
        self._sut.load(samples)
        first = hand.ask(samples[:2])
        self._sut.unload()
        self._sut.load(samples)
        return {"first": first, "second": hand.ask(samples[:2])}

    def _close(self) -> Mapping[str, Any]:
        """Close it, and see what it leaves behind."""
        self._sut.close()
        if self._hand is not None:
            self._hand.close()
            self._threads |= self._hand.threads
        until_s = time.monotonic() + _GONE_S
        while (self._own_threads() or _children()) and time.monotonic() < until_s:
            time.sleep(0.02)
        threads = [thread.name for thread in self._own_threads()]
        return {"threads": threads, "processes": [process.name() for process in _children()]}

    def _own_threads(self) -> list[threading.Thread]:
        """Threads that the system started, in Python: it does not see the end of others."""
        new = set(threading.enumerate()) - self._threads
        return [thread for thread in new if not isinstance(thread, threading._DummyThread)]


def _children() -> list[Any]:
    """Living processes that this one started, but for Python's own."""
    import psutil

    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            own = any(word in part for part in process.cmdline() for word in _NOT_ENGINES)
            if process.status() != psutil.STATUS_ZOMBIE and not own:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def _kill(processes: Sequence[Any]) -> int:
    import psutil

    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=5.0)
    return len(processes)


def _cpu_s() -> float:
    """Processor time that this process and its children have used."""
    import psutil

    total = sum(psutil.Process().cpu_times()[:2])
    for process in _children():
        try:
            total += sum(process.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return float(total)


def main() -> None:
    """Watch the life that the first argument orders."""
    # The system may print: its words must not come between ours.
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    Life(json.loads(sys.argv[1]), report).run()
    report.flush()
    # Threads of an engine must not keep the process.
    os._exit(0)


if __name__ == "__main__":
    main()
