"""The real driver over HTTP and the virtual one, against the same constant system, make the same run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairmark_sim import SimHttpSUT, SimQueueSUT

SERVICE_MS = 2.0


def what_happened(ran: Any) -> dict[str, Any]:
    """Everything about a run that does not depend on how long things took."""
    rows = sorted(ran.rows(), key=lambda row: (row["issued_ns"], row["seq"]))
    phase = ran.outcome["phases"][-1]
    return {
        "order": [(row["query"] - rows[0]["query"], row["sample_index"]) for row in rows],
        "failures": [row["failure"] for row in rows],
        "counts": (phase["issued"], phase["completed"]),
        "ends": (phase["stop_reason"], ran.outcome["stop_reason"]),
        "timed": {row["scheduled_ns"] is None for row in rows},
    }


@st.composite
def runs(draw: st.DrawFn, kind: str) -> list[str]:
    """Small runs of every way to end; none is so short of time that its end depends on the machine."""
    queries = draw(st.integers(1, 40))
    overrides = [f"run.min_query_count={queries}", "settings.target_qps=400"]
    if kind != "Offline" and draw(st.booleans()):
        overrides += [f"run.max_query_count={draw(st.integers(queries, queries + 5))}"]
        overrides += ["run.min_duration_s=1.0"] if draw(st.booleans()) else []
    if kind == "Concurrency":
        overrides.append(f"settings.concurrency={draw(st.integers(1, 8))}")
    if kind == "MultiStream":
        overrides.append(f"run.samples_per_query={draw(st.integers(1, 6))}")
    return overrides


@pytest.mark.parametrize("kind", ["SingleStream", "MultiStream", "Server", "Offline", "Concurrency"])
def test_both_drivers_agree_on_order_counts_and_ends(make_bench: Callable[[], Any], kind: str) -> None:
    bench = make_bench()

    @settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(overrides=runs(kind))
    def agree(overrides: list[str]) -> None:
        server = SimHttpSUT(SimHttpSUT.Options(ttft_ms=SERVICE_MS, output_tokens=1))
        real = bench.run_real(kind, server, *overrides)
        virtual = bench.run(kind, SimQueueSUT(SimQueueSUT.Options(service_ms=SERVICE_MS)), *overrides)
        assert what_happened(virtual) == what_happened(real)
        assert virtual.record["plan"] == real.record["plan"]

    agree()


def test_both_drivers_run_a_submission_in_the_same_order(bench) -> None:
    server = SimHttpSUT(SimHttpSUT.Options(ttft_ms=SERVICE_MS, output_tokens=1))
    real = bench.run_real("Server", server, "settings.target_qps=400", mode="submission")
    sut = SimQueueSUT(SimQueueSUT.Options(service_ms=SERVICE_MS))
    virtual = bench.run("Server", sut, "settings.target_qps=400", mode="submission")
    names = [phase["phase"] for phase in real.outcome["phases"]]
    assert [phase["phase"] for phase in virtual.outcome["phases"]] == names
    assert what_happened(virtual) == what_happened(real)
    for name in ("plan", "samples"):
        assert virtual.table(name).equals(real.table(name))
