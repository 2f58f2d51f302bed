"""The system that is checked: what it is, and what it did when the kit made it do something."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from fairmark.conformance.exercise import Exercise, read_exercise
from fairmark.conformance.life_watch import Life, watch_life
from fairmark.conformance.questions import TOKENS, questions
from fairmark.conformance.wire_hand import takes_stops, takes_text
from fairmark.drive.stop import StopSignal
from fairmark.study.run import SutChoice, drive_once
from fairmark.sut.api import WireSUT
from fairmark.sut.sim import SimSUT

__all__ = ["IN_FLIGHT", "Kind", "Subject"]

Kind = Literal["in_process", "wire", "sim"]

IN_FLIGHT: Final = 4
"""Queries in flight at once in the exercise ``crowd``."""

_STOPS: Final = 4
"""OpenAI's API takes no more stop sequences in one request."""


class Subject:
    """A plugin with its options. Exercises are made when a check first asks for them.

    Args:
        folder: an empty folder for everything that the exercises leave.
        patience_s: how long a query may take, and a call that should return at once.
        say: called with what is going on now.
    """

    def __init__(
        self, choice: SutChoice, folder: Path, *, patience_s: float, say: Callable[[str], None]
    ) -> None:
        self.choice = choice
        self.patience_s = patience_s
        self._folder = folder
        self._say = say

    @property
    def kind(self) -> Kind:
        """What drives it."""
        if issubclass(self.choice.cls, WireSUT):
            return "wire"
        return "sim" if issubclass(self.choice.cls, SimSUT) else "in_process"

    @cached_property
    def life(self) -> Life:
        """Opened, asked by hand and closed, in a process of its own.

        Raises:
            SutError: it does not open.
        """
        self._say("the calls around the queries")
        return watch_life(self.choice, self._folder / "life", self.kind, self.patience_s)

    @cached_property
    def life_to_be_killed(self) -> Life:
        """Opened again; its processes are killed under it.

        Raises:
            SutError: it does not open.
        """
        self._say("a life in which the engine is killed")
        return watch_life(self.choice, self._folder / "killed", self.kind, self.patience_s, to_be_killed=True)

    @cached_property
    def alone(self) -> Exercise:
        """Every question twice, one query at a time."""
        return self._drive("alone", "SingleStream", rounds=2)

    @cached_property
    def crowd(self) -> Exercise:
        """Every question twice, several in flight."""
        return self._drive("crowd", "Concurrency", rounds=2, in_flight=IN_FLIGHT)

    @cached_property
    def together(self) -> Exercise:
        """Every question once, all handed over at the start."""
        return self._drive("together", "Offline")

    @cached_property
    def short(self) -> Exercise:
        """Every question once, for one token."""
        return self._drive("short", "SingleStream", tokens=1)

    @cached_property
    def stops(self) -> tuple[str, ...]:
        """Words from the middle of its own answers, which no answer may go beyond in `stopped`."""
        found: list[str] = []
        if not self.takes_stops:
            return ()
        for query in self.alone.successes:
            words = query.text.split()
            if len(words) >= 6 and len(found) < _STOPS and len(words[len(words) // 2]) > 1:
                found.append(words[len(words) // 2])
        return tuple(dict.fromkeys(found))

    @cached_property
    def stopped(self) -> Exercise:
        """Every question once, with `stops` as stop sequences."""
        return self._drive("stopped", "SingleStream", stop=self.stops)

    @property
    def ordinary(self) -> tuple[Exercise, ...]:
        """The exercises that ask for nothing special."""
        return self.alone, self.crowd, self.together

    def _drive(
        self,
        name: str,
        scenario: str,
        *,
        rounds: int = 1,
        tokens: int = TOKENS,
        stop: tuple[str, ...] = (),
        in_flight: int | None = None,
    ) -> Exercise:
        prepared = questions(
            name,
            scenario,
            input_kind="text" if takes_text(self.choice) else "messages",
            rounds=rounds,
            patience_s=self.patience_s,
            tokens=tokens,
            stop=stop,
            in_flight=in_flight,
        )
        self._say(f"a run, {name} ({scenario})")
        out = self._folder / name
        drive_once(
            prepared,
            self.choice,
            out=out,
            stop=StopSignal(),
            progress=lambda _: None,
            calibration="none",
            clock="virtual" if self.kind == "sim" else "real",
            workspace=self._folder,
        )
        return read_exercise(name, out)

    @cached_property
    def takes_stops(self) -> bool:
        """Whether requests have a place for stop sequences."""
        return takes_stops(self.choice)
