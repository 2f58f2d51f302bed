"""Everything that happens before the first query: checks, request bodies, a probe, and the live store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

import fairmark
from fairmark.drive.calibrate import ceilings
from fairmark.drive.facts import run_facts
from fairmark.drive.folder import begin, preparing, write_given
from fairmark.drive.http.request import request_head, write_bodies
from fairmark.drive.job import Progress, Report, RunJob
from fairmark.drive.orders import Orders
from fairmark.drive.probe import probe
from fairmark.drive.traffic import check_descriptors, live_phase, make_orders
from fairmark.evidence.closing import FACTS
from fairmark.evidence.environment import environment, hashed_host
from fairmark.evidence.json_file import write_json
from fairmark.evidence.live import LIVE, LivePhase, LiveStore, create_store
from fairmark.evidence.requests import requests_sha256
from fairmark.samples.sample import Sample
from fairmark.scenario.model import Samples
from fairmark.sut.api import Endpoint
from fairmark.sut.asking import endpoints_of
from fairmark.wire.dialects import Dialect, dialect
from fairmark.wire.template import template_sha256

__all__ = ["Ready", "make_ready", "prepare_store"]

_GREETING: Final = "Hello."
"""What a first request says where every sample is going to be counted."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What is known once the SUT was asked and before anything is written.

    Attributes:
        heads: the request head of each endpoint; may hold secrets, and is never written.
        endpoints: the address of each, without secrets.
        bodies: the request body of each sample that may be sent.
        observed: what the probe saw.
        ceilings: of each worker, if the client was calibrated.
    """

    heads: Sequence[bytes]
    endpoints: Sequence[str]
    orders: Orders
    bodies: Mapping[int, bytes]
    observed: Mapping[str, Any]
    ceilings: Sequence[Mapping[str, Any]] | None


def make_ready(job: RunJob, progress: Report) -> Ready:
    """Render, check, probe and calibrate.

    Raises:
        InputError, SutError: see `fairmark.drive.run.execute`.
    """
    speech = dialect(job.sut.dialect, job.sut.template)
    endpoints = endpoints_of(job.sut)
    heads = [request_head(e, f"fairmark/{fairmark.__version__}") for e in endpoints]
    orders = make_orders(job, endpoints)
    check_descriptors(job, orders)
    bodies = _render(job, speech)
    observed = _probe(job, endpoints, speech, bodies, progress)
    progress(Progress("calibrate"))
    workers = job.scenario.settings.workers
    measured = ceilings(job.calibration, workers=workers, cores=orders.cores, pacer=job.pacer)
    addresses = [endpoint.url for endpoint in endpoints]
    return Ready(heads, addresses, _with_observed(orders, observed), bodies, observed, measured)


def _render(job: RunJob, speech: Dialect) -> dict[int, bytes]:
    """The request body of every sample that the run may send."""
    sut = job.sut
    wanted = np.unique(np.concatenate([job.plans[name].sample_index for name in job.phases]))
    return {
        index: speech.render(job.library.sample(index), model=sut.model, stream=sut.stream, extra=sut.extra)
        for index in wanted.tolist()
    }


def _probe(
    job: RunJob,
    endpoints: Sequence[Endpoint],
    speech: Dialect,
    bodies: Mapping[int, bytes],
    progress: Report,
) -> dict[str, Any]:
    """Ask every endpoint something that the run does not count, so that no cache knows an answer of it.

    Where there is nothing else to ask, a counted sample is, and ``counted_sample`` says which.
    """
    if not job.probe:
        return {}
    progress(Progress("probe"))
    counted = _counted(job)
    sut = job.sut
    body = speech.render(_first_sample(job, counted), model=sut.model, stream=sut.stream, extra=sut.extra)
    timeout_s = job.scenario.run.query_timeout_s
    seen = [probe(e, body, speech, stream=sut.stream, timeout_s=timeout_s) for e in endpoints]
    same = [index for index in sorted(counted) if bodies[index] == body]
    return {"endpoints": seen, **({"counted_sample": same[0]} if same else {})}


def _counted(job: RunJob) -> set[int]:
    return {i for name in job.phases if name != "warmup" for i in job.plans[name].sample_index.tolist()}


def _first_sample(job: RunJob, counted: Set[int]) -> Sample:
    """A sample that no counted phase sends: of the warm-up, else of the rest, else a greeting."""
    warmup = job.plans["warmup"].sample_index.tolist() if "warmup" in job.plans else []
    for index in (*warmup, *range(len(job.library))):
        if index not in counted:
            return job.library.sample(index)
    return _greeting(job.library.sample(0), job.library.spec)


def _greeting(like: Sample, spec: Samples) -> Sample:
    """A sample with the shape of ``like`` and another prompt.

    Data stays as it is: which other values a server would take, only its owner knows.
    """
    if spec.input == "data":
        return like
    ids = like.token_ids
    if ids is not None:
        ids = list(ids[:1]) if len(ids) > 1 else [*ids, *ids]
    prompt = like.prompt
    if prompt is not None:
        prompt = _GREETING if isinstance(prompt, str) else [{"role": "user", "content": _GREETING}]
    in_row = {"text": prompt, "messages": prompt, "token_ids": ids, "length": 1}[spec.input]
    if isinstance(like.data[spec.prompt], str):  # a message may be its text alone, and CSV has only text
        in_row = str(in_row) if spec.input == "length" else _GREETING
    return replace(like, data={**like.data, spec.prompt: in_row}, prompt=prompt, token_ids=ids)


def _with_observed(orders: Orders, observed: Mapping[str, Any]) -> Orders:
    """Reuse connections only where the server was seen to keep them."""
    seen = observed.get("endpoints")
    if seen is None:
        return orders
    targets = [
        replace(target, persistent=endpoint["keeps_connection"])
        for target, endpoint in zip(orders.targets, seen, strict=True)
    ]
    return replace(orders, targets=targets)


def prepare_store(job: RunJob, ready: Ready) -> LiveStore:
    """Put everything that the workers need, and everything that is known already, on disk.

    Raises:
        InputError: there is no space for it; nothing is left behind.
    """
    with preparing(job.out):
        return _record(job, ready)


def _record(job: RunJob, ready: Ready) -> LiveStore:
    phases = [live_phase(name, job.plans[name]) for name in job.phases]
    started_utc, attempts = begin(job)
    facts = run_facts(
        job,
        started_utc=started_utc,
        attempts=attempts,
        requests=_requests(job, ready, phases),
        observed=ready.observed,
    )
    return _write(job, ready, facts, phases)


def _write(job: RunJob, ready: Ready, facts: Mapping[str, Any], phases: Sequence[LivePhase]) -> LiveStore:
    live = job.out / LIVE
    write_json(live / FACTS, facts)
    write_json(live / "environment.json", environment())
    write_given(job)
    write_bodies(live, ready.bodies)
    ready.orders.write(live)
    return create_store(
        live,
        phases,
        workers=job.scenario.settings.workers,
        dialect=job.sut.dialect,
        stream=job.sut.stream,
        repetition=job.repetition,
        common={"host": hashed_host(), "isolation": "network"},
        ceilings=ready.ceilings,
        template=job.sut.template,
    )


def _requests(job: RunJob, ready: Ready, phases: Sequence[LivePhase]) -> dict[str, Any]:
    """Where to and what is sent, as a digest, and everything an audit needs to render it again."""
    planned = np.concatenate([p.sample_index for p in phases])
    template = job.sut.template
    return {
        "endpoints": ready.endpoints,
        "sha256": requests_sha256(ready.bodies, planned),
        "count": len(planned),
        "model": job.sut.model,
        "stream": job.sut.stream,
        "extra": dict(job.sut.extra),
        "template": template,
        "template_sha256": None if template is None else template_sha256(template),
    }
