"""What can be seen of a plugin around its queries: options, claims, and the calls of its life."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairmark.conformance.check import IN_PROCESS, Check, Finding, cannot, failed, irrelevant, passed
from fairmark.conformance.questions import TOKENS
from fairmark.conformance.subject import Subject
from fairmark.sut.options import Option, describe_options, unreadable_options

__all__ = ["CHECKS"]

_SECRET = re.compile(r"(^|_)(api_?key|key|token|secret|password|passwd|credentials?)$", re.IGNORECASE)

_LOAD_FACTOR: Final = 3.0
_LOAD_FLOOR_S: Final = 0.1
"""Loading for long answers may take this much longer, and this factor, before it counts as answering."""


def _light(subject: Subject) -> Finding:
    seen = _step(subject, "imported")
    if isinstance(seen, Finding):
        return seen
    if seen["heavy"]:
        return failed(f"importing the plugin imports {', '.join(seen['heavy'])}")
    return passed("importing the plugin imports nothing heavy")


def _options(subject: Subject) -> Sequence[Option]:
    return describe_options(subject.choice.cls.Options)


def _documented(subject: Subject) -> Finding:
    options = _options(subject)
    silent = [option.name for option in options if not option.help]
    if silent:
        return failed(f"no help for: {', '.join(silent)}")
    return (
        passed(f"{len(options)} options, each with its help") if options else irrelevant("it has no options")
    )


def _readable(subject: Subject) -> Finding:
    if not _options(subject):
        return irrelevant("it has no options")
    found = unreadable_options(subject.choice.cls.Options)
    if found:
        return failed("-o cannot read " + ", ".join(f"{name}: {kind}" for name, kind in found.items()))
    return passed("-o can read every option")


def _secrets(subject: Subject) -> Finding:
    options = _options(subject)
    found = [o.name for o in options if _SECRET.search(o.name) and o.type.startswith("str")]
    if found:
        return failed(f"options are recorded, and {', '.join(found)} would be")
    return passed("no option asks for a secret") if options else irrelevant("it has no options")


def _described(subject: Subject) -> Finding:
    seen = _step(subject, "described")
    if isinstance(seen, Finding):
        return (
            seen
            if "described" not in subject.life.steps
            else failed(f"describe: {_error(subject, 'described')}")
        )
    claims = json.loads(seen["claims"])
    # A server that someone else started may say nothing but which model it serves.
    wanted = [{"engine", "version"}, {"model"}] if subject.kind == "wire" else [{"engine", "version"}]
    if any(all(claims.get(name) for name in names) for names in wanted):
        return passed(f"claims: {', '.join(claims)}")
    return failed(f"the claims are {', '.join(claims) or 'empty'}; engine and version are not among them")


def _stable(subject: Subject) -> Finding:
    seen = _step(subject, "described")
    if isinstance(seen, Finding):
        return seen
    if seen["claims"] != seen["again"]:
        first, again = json.loads(seen["claims"]), json.loads(seen["again"])
        changed = sorted(k for k in first.keys() | again.keys() if first.get(k) != again.get(k))
        return failed(f"two calls in a row differ in {', '.join(changed)}")
    return passed("two calls in a row claim the same")


def _no_early_work(subject: Subject) -> Finding:
    seen = _step(subject, "loading")
    if isinstance(seen, Finding):
        return seen
    short_s, long_s = seen["1"], seen[str(TOKENS)]
    told = f"loading took {short_s:.3f} s for answers of 1 token, {long_s:.3f} s for answers of {TOKENS}"
    if long_s > max(_LOAD_FACTOR * short_s, short_s + _LOAD_FLOOR_S):
        return failed(told)
    return passed(told)


def _reload(subject: Subject) -> Finding:
    seen = _step(subject, "loaded")
    if isinstance(seen, Finding):
        return _failed_step(subject, "loaded", seen)
    if _bad(seen["first"]):
        return cannot(f"it does not even answer after the first load: {_bad(seen['first'])}")
    if _bad(seen["second"]):
        return failed(f"after unload and load again: {_bad(seen['second'])}")
    return passed("it answers after load, unload and load again")


def _flush(subject: Subject) -> Finding:
    if subject.life.stuck is not None and not subject.life.steps.get("flushing", {}).get("over", True):
        error = _error(subject, "flushed")
        return failed(f"flush does not return: {subject.life.stuck}" if error is None else f"flush: {error}")
    seen = _step(subject, "flushed")
    if isinstance(seen, Finding):
        return _failed_step(subject, "flushed", seen)
    if seen["returned_after_s"] > subject.patience_s:
        return failed(f"flush returned after {seen['returned_after_s']:.1f} s")
    if seen["missing"]:
        return failed(f"{seen['missing']} of {seen['handed']} queries never ended after the flush")
    return passed(f"all {seen['handed']} queries that were handed over before the flush ended")


def _cancel(subject: Subject) -> Finding:
    seen = _step(subject, "gave_up")
    if isinstance(seen, Finding):
        return _failed_step(subject, "gave_up", seen)
    before = subject.life.steps.get("loaded", {})
    if _bad(seen["after"]) and (_bad(before.get("first", ())) or _bad(before.get("second", ()))):
        return cannot("it fails on these questions anyhow")
    if _bad(seen["after"]):
        return failed(f"after the driver gave up queries, the next ones fail: {_bad(seen['after'])}")
    if not seen["given_up"]:
        return irrelevant("every query ended before it could be given up: it is too quick for this")
    return passed(f"{seen['given_up']} queries were given up, and the next ones answered")


def _dead(subject: Subject) -> Finding:
    engines = _step(subject, "engines")
    if isinstance(engines, Finding):
        return engines
    if not engines["processes"]:
        return irrelevant("it starts no process that could be killed")
    life = subject.life_to_be_killed
    alive = life.steps.get("asked", {}).get("answers", ())
    if _bad(alive):
        return cannot(f"it does not even answer with its processes alive: {_bad(alive)}")
    seen = life.steps.get("killed")
    if seen is None or "error" in seen:
        return cannot(life.stuck or "there was no step killed")
    if not seen["processes"]:
        return cannot("opened again, it started no process that could be killed")
    answered = [a for a in seen["answers"] if a["failure"] is None]
    if answered:
        return failed(f"with its {seen['processes']} processes killed it answered {answered[0]['answer']!r}")
    return passed(f"with its {seen['processes']} processes killed: {_bad(seen['answers'])}")


def _close(subject: Subject) -> Finding:
    seen = _step(subject, "closed")
    if isinstance(seen, Finding):
        return _failed_step(subject, "closed", seen)
    left = [f"thread {name}" for name in seen["threads"]] + [f"process {name}" for name in seen["processes"]]
    if left:
        return failed(f"left behind: {', '.join(left)}")
    return passed("close leaves no thread and no process behind")


def _step(subject: Subject, name: str) -> Mapping[str, Any] | Finding:
    """What was seen in a step, or that there is nothing to be seen."""
    seen = subject.life.steps.get(name)
    if seen is None or "error" in seen:
        return cannot(subject.life.stuck or f"there was no step {name}")
    return seen


def _error(subject: Subject, name: str) -> str | None:
    error: str | None = subject.life.steps.get(name, {}).get("error")
    return error


def _failed_step(subject: Subject, name: str, otherwise: Finding) -> Finding:
    """A failure, if the system raised in the step ``name`` itself."""
    error = _error(subject, name)
    return otherwise if error is None else failed(error)


def _bad(answers: Sequence[Mapping[str, Any]]) -> str:
    """The first failure among ``answers``, in words; empty if there is none."""
    failures = [a for a in answers if a["failure"] is not None]
    return f"{failures[0]['failure']}: {failures[0]['detail']}" if failures else ""


CHECKS: Final = (
    Check(
        "light-import",
        "a plugin that is slow or impossible to import keeps every command waiting",
        "import the engine in open(), not at the top of the file",
        _light,
    ),
    Check(
        "options-documented",
        "options that nobody can understand",
        'annotate each field of Options: Annotated[int, "what it does"]',
        _documented,
    ),
    Check(
        "options-readable",
        "an option that cannot be given",
        "use str, int, float, bool, Path, Literal, tuple[X, ...], a Mapping, or one of these | None",
        _readable,
    ),
    Check(
        "no-secrets",
        "a secret in a published record",
        "take the name of an environment variable instead, as in api_key_env",
        _secrets,
    ),
    Check(
        "described",
        "a result of nobody knows what",
        "return engine and version from describe(), and all that decides speed, such as precision and flags",
        _described,
    ),
    Check(
        "described-alike",
        "records that differ although the system does not",
        "claim only what stays the same while the system is open: no times, no counters",
        _stable,
    ),
    Check(
        "no-early-work",
        "answers computed before the clock starts",
        "bring samples into memory in load(), and leave every token to generate, infer or issue",
        _no_early_work,
        IN_PROCESS,
    ),
    Check(
        "reload",
        "a system that can be loaded only once",
        "have load() restore what unload() drops",
        _reload,
        IN_PROCESS,
    ),
    Check(
        "flush",
        "the last queries of a phase, lost or held back",
        "let flush() return at once, and answer everything that was handed over before it",
        _flush,
        IN_PROCESS,
    ),
    Check(
        "given-up",
        "one query that timed out, and a system that answers no more",
        "release slots and locks when a task is cancelled or a connection is closed (try/finally)",
        _cancel,
        ("in_process", "wire"),
    ),
    Check(
        "dead-engine",
        "a dead engine that goes on giving answers",
        "yield Failed, or raise, when the engine's process is gone",
        _dead,
        ("in_process", "wire"),
    ),
    Check(
        "close",
        "an engine left behind that slows the next run down",
        "stop in close() what open() started, and wait for it",
        _close,
        ("in_process", "wire"),
    ),
)
