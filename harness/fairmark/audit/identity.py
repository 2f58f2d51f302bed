"""Is it the experiment that it claims to be? Scenario, samples, references, requests and journal."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np

from fairmark.audit.problems import Problems
from fairmark.audit.subject import REFERENCES, Subject
from fairmark.bundle.run_folder import JOURNAL, RECORD, SCENARIO
from fairmark.errors import EvidenceError, InputError
from fairmark.evidence.closing import facts_sha256
from fairmark.evidence.journal import read_journal
from fairmark.evidence.requests import requests_sha256
from fairmark.measure.arrow import int64s
from fairmark.wire.template import template_sha256

__all__ = ["check_identity"]

_RERUN: Final = "run the scenario again with an unmodified fairmark"


def check_identity(subject: Subject, problems: Problems) -> None:
    """Everything that decides which experiment this was."""
    _check_scenario(subject, problems)
    _check_mode(subject, problems)
    _check_clock(subject, problems)
    _check_samples(subject, problems)
    _check_references(subject, problems)
    _check_requests(subject, problems)
    _check_journal(subject, problems)


def _check_scenario(subject: Subject, problems: Problems) -> None:
    record, scenario = subject.record, subject.scenario
    if record["scenario"] != scenario.document:
        problems.error(
            "audit.scenario",
            SCENARIO,
            "the file, with the recorded overrides, is not the scenario of the record",
            _RERUN,
        )
    if record["scenario_digest"] != scenario.digest:
        problems.error(
            "audit.scenario",
            RECORD,
            f"scenario_digest is {record['scenario_digest']}; the scenario has {scenario.digest}",
            _RERUN,
        )


def _check_mode(subject: Subject, problems: Problems) -> None:
    """The phases of the plan are what the mode says: rules are chosen by it."""
    planned = {str(name) for name in subject.evidence.plan["phase"].unique().to_pylist()} - {"warmup"}
    mode = subject.record["mode"]
    counted = {"submission": {"accuracy", "performance"}, "profile": set()}.get(mode, {mode})
    if planned != counted:
        problems.error(
            "audit.mode",
            RECORD,
            f"mode is {subject.record['mode']!r}; the plan has the phases {', '.join(sorted(planned))}",
            _RERUN,
        )


def _check_clock(subject: Subject, problems: Problems) -> None:
    """A simulated run has simulated pacing, and no other has."""
    pacers = {str(worker.get("pacer")) for worker in subject.evidence.workers}
    simulated = pacers == {"virtual"}
    if simulated != (subject.record["clock"] == "virtual") or ("virtual" in pacers) != simulated:
        problems.error(
            "audit.clock",
            RECORD,
            f"clock is {subject.record['clock']!r}; the workers paced by {', '.join(sorted(pacers))}",
            _RERUN,
        )


def _check_samples(subject: Subject, problems: Problems) -> None:
    recorded, found = subject.record["samples"], subject.library.content_sha256
    pin = subject.scenario.samples.sha256
    claims = {
        "content_sha256": (recorded["content_sha256"], found),
        "rows": (recorded["rows"], len(subject.library)),
        "pinned_sha256": (recorded["pinned_sha256"], pin),
        "source": (recorded["source"], subject.scenario.samples.source),
    }
    for name, (claimed, actual) in claims.items():
        if claimed != actual:
            problems.error(
                "audit.samples",
                RECORD,
                f"samples.{name} is {claimed!r}; the evidence gives {actual!r}",
                _RERUN,
            )
    if pin is not None and pin != found:
        problems.error(
            "audit.samples",
            "evidence/samples.parquet",
            f"the content digest is {found}; the scenario pins {pin}",
            "run with the pinned samples",
        )


def _check_references(subject: Subject, problems: Problems) -> None:
    accuracy = subject.scenario.accuracy
    named = accuracy is not None and accuracy.reference is not None
    if named != (subject.references is not None):
        word = (
            "is missing although the scenario names" if named else "is there although the scenario names no"
        )
        problems.error("audit.references", REFERENCES, f"{word} reference outputs", _RERUN)
    elif accuracy is not None and subject.references is not None and accuracy.sha256 is not None:
        digest = hashlib.sha256(subject.references).hexdigest()
        if digest != accuracy.sha256:
            problems.error(
                "audit.references",
                REFERENCES,
                f"has SHA-256 {digest}; the scenario pins {accuracy.sha256}",
                "run with the pinned references",
            )


def _check_requests(subject: Subject, problems: Problems) -> None:
    """Render every request body again from samples and scenario."""
    sut, requests = subject.record["sut"], subject.record["requests"]
    if requests is None:
        _check_without_wire(subject, problems)
        return
    dialect = subject.dialect
    if dialect is None:
        problems.warning(
            "audit.plugin-dialect",
            RECORD,
            f"requests and responses are in {sut['dialect']!r}, decoded by plugin, not re-decoded",
            "use a dialect of fairmark itself where results must be checked by others",
        )
        return
    planned = int64s(subject.evidence.plan, "sample_index")
    try:
        bodies = {
            index: dialect.render(
                subject.library.sample(index),
                model=requests["model"],
                stream=requests["stream"],
                extra=requests["extra"],
            )
            for index in np.unique(planned).tolist()
        }
    except (IndexError, InputError) as error:
        problems.error("audit.requests", RECORD, f"a request cannot be rendered again: {error}", _RERUN)
        return
    template = requests.get("template")
    found = {
        "sha256": requests_sha256(bodies, planned),
        "count": len(planned),
        "template_sha256": None if template is None else template_sha256(template),
    }
    for name, value in found.items():
        if requests.get(name) != value:
            problems.error(
                "audit.requests",
                RECORD,
                f"requests.{name} is {requests.get(name)!r}; rendered again it is {value!r}",
                _RERUN,
            )


def _check_without_wire(subject: Subject, problems: Problems) -> None:
    """Only a system that is not a server leaves no requests."""
    isolations = {worker.get("isolation") for worker in subject.evidence.workers}
    if subject.record["sut"]["dialect"] is not None or len(subject.reads) or "network" in isolations:
        problems.error("audit.requests", RECORD, "requests is null although a server was driven", _RERUN)


def _check_journal(subject: Subject, problems: Problems) -> None:
    """The chain holds, and its last line seals the evidence, the outcome and the facts of the record."""
    try:
        entries = read_journal(subject.folder / JOURNAL)
    except EvidenceError as error:
        problems.error("audit.journal", JOURNAL, str(error).replace(f"{subject.folder}/", ""), _RERUN)
        return
    sealed: dict[str, Any] = entries[-1]
    others = {f"evidence/{name}": d for name, d in subject.record["evidence"].items()}
    others.pop(JOURNAL, None)
    listed = {f"evidence/{name}": d for name, d in sealed.get("evidence", {}).items()}
    if sealed.get("event") != "sealed" or listed != others:
        problems.error(
            "audit.journal", JOURNAL, "its last line does not seal the evidence that the record lists", _RERUN
        )
    if sealed.get("outcome") != subject.record["outcome"]:
        problems.error("audit.journal", JOURNAL, "it ends with another outcome than the record", _RERUN)
    if sealed.get("facts_sha256") != facts_sha256(subject.record):
        problems.error(
            "audit.facts",
            RECORD,
            "what was asked, of whom, when or at which attempt is not what the journal sealed",
            _RERUN,
        )
