"""The facts of the run record that are known before the run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import fairmark
from fairmark.drive.job import Clock, Job, RunJob
from fairmark.evidence.columns import Phase
from fairmark.scenario.model import Seeds
from fairmark.sut.asking import claims_of
from fairmark.traffic.plan import Plan, plan_sha256

__all__ = ["job_facts", "run_facts", "run_id", "source_sha256"]


def run_id(job: Job, started_utc: str) -> str:
    """``<utc>-<scenario name>-<first 8 digits of the digest>``."""
    stamp = started_utc.replace("-", "").replace(":", "")
    return f"{stamp}-{job.scenario.name}-{job.scenario.digest[:8]}"


@cache
def source_sha256() -> str:
    """SHA-256 over path and SHA-256 of every Python file of the package, sorted by path."""
    root = Path(fairmark.__file__).parent
    total = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(root).as_posix()} {digest}\n".encode())
    return total.hexdigest()


def run_facts(
    job: RunJob,
    *,
    started_utc: str,
    attempts: int,
    requests: Mapping[str, Any],
    observed: Mapping[str, Any],
) -> dict[str, Any]:
    """The facts of a run against a server on the real clock; see `job_facts`."""
    sut = {
        "shape": "wire",
        "isolation": "network",
        "dialect": job.sut.dialect,
        "claims": claims_of(job.sut),
        "observed": dict(observed),
    }
    return job_facts(
        job, started_utc=started_utc, attempts=attempts, clock="real", requests=dict(requests), sut=sut
    )


def job_facts(
    job: Job,
    *,
    started_utc: str,
    attempts: int,
    clock: Clock,
    requests: Mapping[str, Any] | None,
    sut: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything but the outcome and the evidence digests; plain JSON values.

    Args:
        requests: what was rendered for a wire; None where nothing is.
        sut: what is known of it beyond ``job.sut_facts``.
    """
    scenario = job.scenario
    return {
        "schema": "fairmark/run/1",
        "run_id": run_id(job, started_utc),
        "fairmark": {"version": fairmark.__version__, "source_sha256": source_sha256()},
        "started_utc": started_utc,
        "ended_utc": None,
        "mode": job.mode,
        "clock": clock,
        "scenario": dict(scenario.document),
        "scenario_digest": scenario.digest,
        "overrides": list(scenario.overrides),
        "samples": job.library.facts(),
        "plan": _plan(job),
        "requests": requests,
        "sut": {**job.sut_facts, **sut},
        "series": job.series,
        "attempts": attempts,
    }


def _plan(job: Job) -> dict[str, Any]:
    """The digest and the seeds are those of the last counted phase; each phase has its own digest too."""
    last = job.plans[job.phases[-1]]
    return {
        "sha256": plan_sha256(last),
        "seeds": _seeds(last.seeds),
        "base_seeds": _seeds(job.scenario.seeds),
        "repetition": job.repetition,
        "nonce": job.nonce,
        "phases": [_phase(name, job.plans[name]) for name in job.phases],
    }


def _seeds(seeds: Seeds) -> dict[str, str]:
    """As decimal strings: JSON numbers above 2**53 do not survive every reader."""
    return {name: str(seed) for name, seed in asdict(seeds).items()}


def _phase(name: Phase, plan: Plan) -> dict[str, Any]:
    return {
        "phase": name,
        "queries": plan.query_count,
        "samples": len(plan.sample_index),
        "duration_ns": plan.generated_duration_ns,
        "sha256": plan_sha256(plan),
    }
