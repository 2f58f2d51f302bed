"""Small SVG plots: axes with round ticks, and the few marks that latency charts need.

Colours come from the page's CSS classes, so a plot follows light, dark and print.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

__all__ = ["Axis", "Frame", "band", "crosses", "dots", "level", "marker", "path", "render", "upright"]

_UNITS_PER_X_TICK: Final = 70
_UNITS_PER_Y_TICK: Final = 30


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: its label with unit, its range, and whether equal steps are equal factors."""

    label: str
    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """Where ``value`` lies between the ends: 0 at ``low``, 1 at ``high``; clipped to that."""
        if self.log:
            value, low, high = (math.log10(max(v, 1e-12)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def ticks(self, about: int) -> list[float]:
        """``about`` so many round values between the ends: steps of 1, 2 or 5 times a power of ten."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1,) if len(decades) > 4 else (1, 2, 5)
            values = [step * 10.0**decade for decade in decades for step in steps]
            return [v for v in values if self.low <= v <= self.high]
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The drawing area of one plot, in SVG user units."""

    x: Axis
    y: Axis
    width: int = 360
    height: int = 236
    left: int = 60
    right: int = 12
    top: int = 16
    bottom: int = 42

    @property
    def x_ticks(self) -> list[float]:
        """Where the horizontal axis carries numbers."""
        return self.x.ticks(max(2, (self.width - self.left - self.right) // _UNITS_PER_X_TICK))

    @property
    def y_ticks(self) -> list[float]:
        """Where the vertical axis carries numbers."""
        return self.y.ticks(max(2, (self.height - self.top - self.bottom) // _UNITS_PER_Y_TICK))

    def at_x(self, value: float) -> float:
        """Horizontal position of ``value``."""
        return self.left + self.x.position(value) * (self.width - self.left - self.right)

    def at_y(self, value: float) -> float:
        """Vertical position of ``value``; the SVG axis points down."""
        return self.height - self.bottom - self.y.position(value) * (self.height - self.top - self.bottom)


def path(frame: Frame, xs: Sequence[float], ys: Sequence[float], css: str, *, steps: bool = False) -> str:
    """A line through the points, or, with ``steps``, one that keeps each value until the next point."""
    if not len(xs):
        return ""
    parts = [f"M{frame.at_x(xs[0]):.1f} {frame.at_y(ys[0]):.1f}"]
    for x, y in zip(xs[1:], ys[1:], strict=True):
        px, py = f"{frame.at_x(x):.1f}", f"{frame.at_y(y):.1f}"
        parts.append(f"H{px}V{py}" if steps else f"L{px} {py}")
    return f'<path class="line {css}" d="{"".join(parts)}"/>'


def dots(frame: Frame, xs: Sequence[float], ys: Sequence[float], css: str) -> str:
    """One dot per point, all in one path: a stroke of no length with round ends is a dot."""
    marks = "".join(f"M{frame.at_x(x):.1f} {frame.at_y(y):.1f}h0" for x, y in zip(xs, ys, strict=True))
    return f'<path class="dots {css}" d="{marks}"/>' if marks else ""


def crosses(frame: Frame, xs: Sequence[float], ys: Sequence[float], css: str) -> str:
    """One small cross per point."""
    marks = "".join(
        f"M{frame.at_x(x) - 3:.1f} {frame.at_y(y) - 3:.1f}l6 6m0 -6l-6 6" for x, y in zip(xs, ys, strict=True)
    )
    return f'<path class="cross {css}" d="{marks}"/>' if marks else ""


def level(frame: Frame, y: float, label: str, css: str) -> str:
    """A horizontal line across the plot, labelled at its left end."""
    py, end = frame.at_y(y), frame.width - frame.right
    beside = py + 12 if py < frame.top + 14 else py - 4
    return _segment(frame.left, py, end, py, f"rule {css}") + _text(
        frame.left + 4, beside, label, f"note {css}"
    )


def upright(frame: Frame, x: float, label: str, css: str) -> str:
    """A vertical line over the plot, labelled at its foot."""
    px, base = frame.at_x(x), frame.height - frame.bottom
    return _segment(px, frame.top, px, base, f"rule {css}") + _beside(
        frame, px, base - 6, label, f"note {css}", gap=4
    )


def band(frame: Frame, start: float, end: float, label: str) -> str:
    """A shaded stretch of the horizontal axis, labelled at its top."""
    left, right = frame.at_x(start), frame.at_x(end)
    return (
        f'<rect class="band" x="{left:.1f}" y="{frame.top}" width="{max(right - left, 0):.1f}" '
        f'height="{frame.height - frame.bottom - frame.top}"/>'
    ) + _text(left + 4, frame.top + 11, label, "note quiet")


def marker(frame: Frame, x: float, y: float, label: str, css: str) -> str:
    """A ringed point with its label beside it."""
    px, py = frame.at_x(x), frame.at_y(y)
    ring = f'<circle class="marker {css}" cx="{px:.1f}" cy="{py:.1f}" r="3.2"/>'
    return ring + _beside(frame, px, py + 11, label, "note", gap=7)


def render(frame: Frame, marks: Sequence[str], description: str) -> str:
    """The whole plot as an ``<svg>`` element; ``description`` is read out to those who cannot see it."""
    return (
        f'<svg viewBox="0 0 {frame.width} {frame.height}" role="img" aria-label="{escape(description)}">'
        f"{_x_axis(frame)}{_y_axis(frame)}{''.join(marks)}</svg>"
    )


def _segment(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, content: str, css: str, *, anchor: str = "start") -> str:
    return f'<text class="{css}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(content)}</text>'


def _beside(frame: Frame, px: float, y: float, content: str, css: str, *, gap: int) -> str:
    """Text to the right of ``px``, or to its left where the right edge is near."""
    if px > frame.width * 0.82:
        return _text(px - gap, y, content, css, anchor="end")
    return _text(px + gap, y, content, css)


def _x_axis(frame: Frame) -> str:
    base, end = frame.height - frame.bottom, frame.width - frame.right
    parts = [_segment(frame.left, base, end, base, "axis")]
    for tick in frame.x_ticks:
        px = frame.at_x(tick)
        parts.append(_segment(px, base, px, base + 4, "stub"))
        parts.append(_text(px, base + 15, _tick(tick, frame.x_ticks), "tick", anchor="middle"))
    parts.append(_text((frame.left + end) / 2, frame.height - 8, frame.x.label, "label", anchor="middle"))
    return "".join(parts)


def _y_axis(frame: Frame) -> str:
    parts: list[str] = []
    for tick in frame.y_ticks:
        py = frame.at_y(tick)
        parts.append(_segment(frame.left, py, frame.width - frame.right, py, "grid"))
        parts.append(_text(frame.left - 7, py + 3.5, _tick(tick, frame.y_ticks), "tick", anchor="end"))
    middle = (frame.top + frame.height - frame.bottom) / 2
    parts.append(
        f'<g transform="translate(13 {middle:.0f}) rotate(-90)">'
        f"{_text(0, 0, frame.y.label, 'label', anchor='middle')}</g>"
    )
    return "".join(parts)


def _tick(value: float, ticks: Sequence[float]) -> str:
    """A tick's number, with as many decimals as the smallest step between ticks needs."""
    step = min((b - a for a, b in pairwise(ticks)), default=abs(value) or 1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value:,.{decimals}f}".replace("-", "−")
