"""The charts of one run. Stamps come from the evidence, levels and limits from the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from fairmark.measure.arrow import Int64s, present
from fairmark.measure.phase import Phase, elapsed, read_phase
from fairmark.report import svg
from fairmark.report.numbers import count, decimal, duration_unit, in_unit
from fairmark.report.run_data import RunData

__all__ = ["Chart", "charts"]

Width = Literal["third", "half", "full"]
Legend = tuple[tuple[str, str], ...]
Floats = npt.NDArray[np.float64]

_MOST_POINTS: Final = 2000
_MOST_CURVE_POINTS: Final = 400
_TAIL_POINTS: Final = 50
_FULL: Final = 1100
_HALF: Final = 540
_LOG_FROM: Final = 30.0
"""A latency axis is logarithmic where its largest value is this many times the median."""


@dataclass(frozen=True, slots=True)
class Chart:
    """One figure: heading, what is drawn in which colour, the plot, a sentence below it.

    ``plot`` is empty where there is nothing to draw, and ``caption`` then says why.
    """

    title: str
    legend: Legend
    plot: str
    caption: str
    width: Width = "third"


def charts(run: RunData) -> list[Chart]:
    """All charts of ``run``, in reading order; empty when it has no counted phase."""
    metrics = run.record.get("metrics", {})
    name = "performance" if "performance" in metrics else "accuracy"
    if name not in metrics:
        return []
    phase = read_phase(run.evidence.queries, name)
    if not len(phase):
        return []
    numbers = metrics[name]
    return [
        _cdf(
            "Time to first token",
            "ttft",
            "ttft_ns",
            elapsed(phase.scheduled, phase.first_token),
            phase,
            numbers,
        ),
        _cdf("Time per output token", "tpot", "tpot_ns", phase.tpot(), phase, numbers),
        _cdf(
            "End-to-end latency", "e2e", "e2e_ns", elapsed(phase.scheduled, phase.completed), phase, numbers
        ),
        _over_time(phase, read_phase(run.evidence.queries, "warmup")),
        _in_flight(phase, numbers),
        _send_lag(phase, numbers),
        _prefill(phase),
    ]


def _chart(
    title: str, legend: Legend, frame: svg.Frame, marks: list[str], caption: str, width: Width
) -> Chart:
    return Chart(title, legend, svg.render(frame, marks, f"{title}. {caption}"), caption, width)


def _cdf(
    title: str, bound: str, metric: str, values: Int64s, phase: Phase, numbers: Mapping[str, Any]
) -> Chart:
    """Share of queries at or below each latency; failures never reach it."""
    described = numbers["latency"][metric]
    if "undefined" in described:
        return Chart(title, (), "", described["undefined"])
    headline = described.get("from_schedule", described.get("between_events"))
    kept = np.sort(values[phase.ok & present(values)])
    failed = int((~phase.ok).sum())
    limit = numbers["constraint"]["bounds"].get(bound)
    top = max(int(kept[-1]), limit["bound_ns"] if limit else 0)
    unit, unit_ns = duration_unit(top)
    frame = svg.Frame(
        _latency_axis(f"{title} ({unit})", kept / unit_ns, top / unit_ns), svg.Axis("Queries (%)", 0, 100)
    )
    shares = np.arange(1, len(kept) + 1) * (100.0 / (len(kept) + failed))
    chosen = _curve_points(len(kept))
    marks = [svg.path(frame, (kept / unit_ns)[chosen].tolist(), shares[chosen].tolist(), "one", steps=True)]
    if limit is not None:
        marks.insert(0, _bound_marks(frame, limit, numbers["constraint"]["percentile"], unit, unit_ns))
    marks.extend(_percentile_marks(frame, headline, len(kept) / (len(kept) + failed), unit_ns))
    origin = "from the scheduled time" if "from_schedule" in described else "between events of one response"
    caption = f"{count(len(kept))} queries, {origin}." + (
        f" {count(failed)} failed and count as slower than any bound." if failed else ""
    )
    legend = (("one", "queries"), *((("bound", "bound"),) if limit else ()))
    return _chart(title, legend, frame, marks, caption, "third")


def _bound_marks(
    frame: svg.Frame, limit: Mapping[str, Any], percentile: float, unit: str, unit_ns: int
) -> str:
    bound = limit["bound_ns"] / unit_ns
    return svg.upright(frame, bound, f"bound {bound:g} {unit}", "bound") + svg.level(
        frame, percentile * 100, f"p{percentile * 100:g}", "quiet"
    )


def _percentile_marks(
    frame: svg.Frame, headline: Mapping[str, Any], succeeded: float, unit_ns: int
) -> Iterator[str]:
    for percentile in (50, 90, 99):
        value = headline[f"p{percentile}_ns"]
        # Percentiles are of successes, the curve is of all queries.
        yield svg.marker(
            frame, value / unit_ns, percentile * succeeded, f"p{percentile} {in_unit(value, unit_ns)}", "one"
        )


def _over_time(phase: Phase, warmup: Phase) -> Chart:
    """E2E and TTFT of each query at the time it was sent, with the warm-up before them."""
    title = "Latency against time"
    shown = [warmup, phase] if _adjoins(warmup, phase) else [phase]
    times = [_sent_s(part) for part in shown]
    latest = max(int((part.done - part.scheduled).max()) for part in shown)
    unit, unit_ns = duration_unit(latest)
    start, end = float(times[0].min()), float(times[-1].max())
    frame = svg.Frame(
        svg.Axis("Time sent (s)", start, max(end, start + 1e-3)),
        svg.Axis(f"Latency ({unit})", 0, max(latest / unit_ns, 1e-3) * 1.05),
        width=_FULL,
    )
    marks: list[str] = []
    if len(shown) > 1:
        marks.append(svg.band(frame, start, phase.start_ns / 1e9, "warm-up, not counted"))
    for part, sent_s in zip(shown, times, strict=True):
        marks.extend(_latency_marks(frame, part, sent_s, unit_ns))
    failed = sum(int((~part.ok).sum()) for part in shown)
    caption = "Latency counts from the scheduled time." + (" Crosses are failures." if failed else "")
    legend = (("one", "end to end"), ("two", "first token"), *((("bad", "failed"),) if failed else ()))
    return _chart(title, legend, frame, marks, caption, "full")


def _sent_s(part: Phase) -> Floats:
    """When each sample was sent, or, where none of it was, meant to be."""
    return np.where(present(part.sent), part.sent, part.issued) / 1e9


def _adjoins(warmup: Phase, phase: Phase) -> bool:
    """Whether the warm-up came right before ``phase``, so that one time axis can hold both."""
    if not len(warmup):
        return False
    gap = phase.start_ns - int(warmup.done.max())
    return gap <= max(int(phase.done.max()) - phase.start_ns, 1)


def _latency_marks(frame: svg.Frame, part: Phase, sent_s: Floats, unit_ns: int) -> Iterator[str]:
    for stamp, css in ((part.completed, "one"), (part.first_token, "two")):
        reached = part.ok & present(stamp)
        latency = (stamp - part.scheduled)[reached] / unit_ns
        yield svg.dots(frame, *_thinned(sent_s[reached], latency), css)
    bad = ~part.ok
    yield svg.crosses(frame, *_thinned(sent_s[bad], (part.done - part.scheduled)[bad] / unit_ns), "bad")


def _send_lag(phase: Phase, numbers: Mapping[str, Any]) -> Chart:
    """How late the harness itself was, with the limit that it is judged by."""
    title = "The harness's own lag"
    client = numbers["client"]
    by_schedule = client["lag_basis"] == "schedule"
    lag = elapsed(phase.scheduled if by_schedule else phase.issued, phase.sent)
    sent = present(lag)
    if not sent.any():
        return Chart(title, (), "", "no query has a send stamp", "half")
    limit = client["send_lag_limit_ns"]
    unit, unit_ns = duration_unit(max(limit, int(lag[sent].max())))
    frame = svg.Frame(
        _time_axis(phase),
        svg.Axis(f"Lag ({unit})", 0, max(limit, int(lag[sent].max())) / unit_ns * 1.1),
        width=_HALF,
    )
    marks = [
        svg.level(frame, limit / unit_ns, f"limit for p99: {limit / unit_ns:g} {unit}", "bound"),
        svg.dots(frame, *_thinned(phase.issued[sent] / 1e9, lag[sent] / unit_ns), "one"),
    ]
    basis = "the scheduled time" if by_schedule else "the decision to send"
    caption = f"From {basis} until the request was sent."
    return Chart(
        title,
        (("one", "queries"), ("bound", "limit")),
        svg.render(frame, marks, f"{title}. {caption}"),
        caption,
        "half",
    )


def _in_flight(phase: Phase, numbers: Mapping[str, Any]) -> Chart:
    """Samples in flight, and the L of Little's law."""
    title = "Samples in flight"
    times = np.concatenate([phase.done, phase.issued])
    steps = np.concatenate([np.full(len(phase), -1), np.ones(len(phase), dtype=np.int64)])
    order = np.lexsort((steps, times))
    level = np.cumsum(steps[order]).astype(np.float64)
    xs, ys = _thinned(times[order] / 1e9, level)
    frame = svg.Frame(
        _time_axis(phase), svg.Axis("In flight", 0, max(float(level.max()), 1.0) * 1.1), width=_FULL
    )
    marks = [svg.path(frame, xs, ys, "one", steps=True)]
    little = numbers["concurrency"]
    if "undefined" in little:
        caption = little["undefined"]
    else:
        mean = little["mean_in_flight"]
        marks.append(svg.level(frame, mean, f"L = {decimal(mean)}", "two"))
        caption = (
            f"L = λ·W: {decimal(mean)} = {decimal(little['arrival_qps'])}/s × "
            f"{decimal(little['mean_sojourn_ns'] / 1e9)} s, residual {little['identity_residual']:.1e}."
        )
    legend = (("one", "in flight"), ("two", "time average L"))
    return _chart(title, legend, frame, marks, caption, "full")


def _prefill(phase: Phase) -> Chart:
    """First token against prompt length: the prefill stage, seen from outside."""
    title = "First token against input length"
    first = elapsed(phase.sent, phase.first_token)
    known = phase.ok & present(first) & present(phase.input_tokens)
    if not known.any():
        return Chart(title, (), "", "no success has a first-token stamp and an input token count", "half")
    tokens, latency = phase.input_tokens[known].astype(np.float64), first[known]
    unit, unit_ns = duration_unit(int(latency.max()))
    frame = svg.Frame(
        svg.Axis("Input length (tokens)", 0, float(tokens.max()) * 1.05 or 1.0),
        svg.Axis(f"First token ({unit})", 0, max(float(latency.max()) / unit_ns, 1e-3) * 1.1),
        width=_HALF,
    )
    order = np.argsort(tokens, kind="stable")
    marks = [svg.dots(frame, *_thinned(tokens[order], latency[order] / unit_ns), "two")]
    caption = "From when the request was sent, so waiting in the harness is left out."
    return Chart(
        title, (("two", "queries"),), svg.render(frame, marks, f"{title}. {caption}"), caption, "half"
    )


def _latency_axis(label: str, values: Floats, top: float) -> svg.Axis:
    """An axis up to ``top`` with room to the right for the label of a marker."""
    middle = float(np.median(values))
    if middle > 0 and float(values[0]) > 0 and top / middle > _LOG_FROM:
        low = float(values[0]) * 0.9
        return svg.Axis(label, low, top * (top / low) ** 0.25, log=True)
    return svg.Axis(label, 0, max(top, 1e-6) * 1.3)


def _time_axis(phase: Phase) -> svg.Axis:
    start, end = phase.start_ns / 1e9, int(phase.done.max()) / 1e9
    return svg.Axis("Time (s)", start, max(end, start + 1e-3))


def _curve_points(n: int) -> npt.NDArray[np.intp]:
    """Which points of a sorted curve to draw: evenly spread, and all of the tail."""
    if n <= _MOST_CURVE_POINTS:
        return np.arange(n)
    spread = np.linspace(0, n - 1, _MOST_CURVE_POINTS).astype(np.intp)
    return np.union1d(spread, np.arange(n - _TAIL_POINTS, n))


def _thinned(xs: Floats, ys: Floats) -> tuple[list[float], list[float]]:
    """At most about `_MOST_POINTS` points: of each run of neighbours the lowest and the highest."""
    if len(xs) <= _MOST_POINTS:
        return xs.tolist(), ys.tolist()
    starts = np.linspace(0, len(xs), _MOST_POINTS // 2, endpoint=False).astype(np.intp)
    ends = np.append(starts[1:], len(xs))
    chosen = [
        a + pick for a, b in zip(starts, ends, strict=True) for pick in {ys[a:b].argmin(), ys[a:b].argmax()}
    ]
    kept = np.sort(np.array(chosen))
    return xs[kept].tolist(), ys[kept].tolist()
