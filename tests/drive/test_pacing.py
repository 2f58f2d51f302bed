"""Both pacers on a real loop. Only what must hold on any machine is asserted: never early, never lost."""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import Any

import pytest
import uvloop

from fairmark.drive.pacing import PACERS, PacerName, make_pacer
from fairmark.errors import InputError

LOOPS = {"asyncio": asyncio.run, "uvloop": uvloop.run}
MS = 1_000_000


@pytest.mark.parametrize("name", PACERS)
@pytest.mark.parametrize("loop", LOOPS)
def test_no_callback_is_early_and_none_is_lost(name: PacerName, loop: str) -> None:
    deadlines: list[int] = []
    woken: list[int] = []

    async def paced() -> None:
        done = asyncio.Event()

        def callback() -> None:
            woken.append(monotonic_ns())
            if len(woken) == len(gaps):
                done.set()
            else:
                arm()

        def arm() -> None:
            deadlines.append(monotonic_ns() + gaps[len(woken)])
            pacer.arm(deadlines[-1])

        gaps = [0, 50_000, 300_000, 3 * MS, 1, 10 * MS]
        pacer = make_pacer(asyncio.get_running_loop(), callback, name)
        assert pacer.name == name
        arm()
        await done.wait()
        pacer.close()

    LOOPS[loop](paced())
    assert len(woken) == 6
    assert all(at >= deadline for at, deadline in zip(woken, deadlines, strict=True))


@pytest.mark.parametrize("name", PACERS)
def test_a_later_deadline_replaces_an_earlier_one_and_cancel_forgets_it(name: PacerName) -> None:
    woken: list[int] = []

    async def paced() -> int:
        pacer = make_pacer(asyncio.get_running_loop(), lambda: woken.append(monotonic_ns()), name)
        now = monotonic_ns()
        pacer.arm(now + MS)
        later = now + 20 * MS
        pacer.arm(later)
        while not woken:
            await asyncio.sleep(0.001)
        pacer.arm(monotonic_ns() + MS)
        pacer.cancel()
        await asyncio.sleep(0.02)
        pacer.close()
        return later

    later = uvloop.run(paced())
    assert len(woken) == 1
    assert woken[0] >= later


def test_an_unknown_pacer_names_the_known_ones() -> None:
    async def make() -> Any:
        return make_pacer(asyncio.get_running_loop(), lambda: None, "sundial")  # type: ignore[arg-type]

    with pytest.raises(InputError, match=r"sundial.*timerfd\+spin, sleep\+spin"):
        asyncio.run(make())
