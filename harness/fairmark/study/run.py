"""One run from start to verdict: prepare, drive, measure, judge, write the record."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairmark.drive.inprocess.plugin import PluginOrder, pick_isolation, pick_shape
from fairmark.drive.inprocess.run import execute_in_process
from fairmark.drive.job import Calibration, Clock, InProcessJob, Progress, RunJob, VirtualJob
from fairmark.drive.ledger import find_workspace
from fairmark.drive.run import execute
from fairmark.drive.stop import StopSignal
from fairmark.drive.virtual.run import execute_virtual
from fairmark.errors import InputError
from fairmark.evidence.evidence import load_evidence
from fairmark.evidence.json_file import write_json
from fairmark.judge.judge import judge
from fairmark.judge.rules import Ruleset, load_ruleset
from fairmark.measure.measure import measure
from fairmark.measure.programs import Runner
from fairmark.report.profile import TRACES
from fairmark.study.prepare import Prepared
from fairmark.sut.api import SUT, WireSUT
from fairmark.sut.asking import ask
from fairmark.sut.options import options_record, parse_options
from fairmark.sut.plugins import identity, load_sut, shapes
from fairmark.sut.sim import SimSUT

__all__ = ["SutChoice", "choose_sut", "default_folder", "drive_once", "judge_run", "run_once"]

RECORD = "run.json"


@dataclass(frozen=True, slots=True)
class SutChoice:
    """A plugin with its options, before it is opened.

    Attributes:
        assignments, plugins: what it was chosen by, for the process that makes it again.
    """

    name: str
    cls: type[SUT]
    options: Any
    assignments: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


def choose_sut(name: str, assignments: Sequence[str] = (), plugins: Sequence[str] = ()) -> SutChoice:
    """Find the plugin ``name`` and read its options.

    Raises:
        InputError: the plugin or an option cannot be used.
    """
    cls = load_sut(name, plugins)
    if missing := sorted(getattr(cls, "__abstractmethods__", ())):
        raise InputError(
            f"is not a whole system: {cls.__name__} does not implement {', '.join(missing)}",
            source="--sut",
            value=name,
            accepted="a class that does",
        )
    options = parse_options(cls.Options, assignments, sut=name)
    return SutChoice(name, cls, options, tuple(assignments), tuple(plugins))


def default_folder(prepared: Prepared, parent: Path = Path("runs")) -> Path:
    """``runs/<utc>-<scenario name>-<first 8 digits of the digest>``, with a number if that is taken."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{stamp}-{prepared.scenario.name}-{prepared.scenario.digest[:8]}"
    folder, number = parent / stem, 1
    while folder.exists():
        number += 1
        folder = parent / f"{stem}-{number}"
    return folder


def run_once(
    prepared: Prepared,
    choice: SutChoice,
    *,
    out: Path,
    ruleset: Ruleset,
    stop: StopSignal,
    progress: Callable[[Progress], None],
    calibration: Calibration = "cached",
    clock: Clock = "real",
    run_program: Runner | None = None,
) -> dict[str, Any]:
    """Drive a prepared run against a SUT and judge it; see `drive_once`.

    Returns:
        The whole record, as written to ``run.json``.
    """
    drive_once(prepared, choice, out=out, stop=stop, progress=progress, calibration=calibration, clock=clock)
    progress(Progress("judge"))
    return judge_run(out, ruleset, run_program=run_program)


def drive_once(
    prepared: Prepared,
    choice: SutChoice,
    *,
    out: Path,
    stop: StopSignal,
    progress: Callable[[Progress], None],
    calibration: Calibration = "cached",
    clock: Clock = "real",
    workspace: Path | None = None,
) -> None:
    """Drive a prepared run against a SUT and leave its folder with sealed evidence.

    Args:
        out: the run folder; it must not hold a run yet.
        progress: called often while the run goes on.
        clock: simulated systems run on the virtual clock, all others on the real one. On that, servers are
            driven from here, and every other shape inside a worker process.
        workspace: the folder of the attempts ledger; None looks for it from the current folder upwards.

    Raises:
        InputError: the run cannot be made from what the user gave.
        SutError: the SUT does not open, or does not answer a first request.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError("already holds something", source="--out", value=str(out), accepted="a new folder")
    logs = out / "evidence" / "logs"
    there = [folder for folder in (out, *out.parents) if folder.exists()]
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"the run folder cannot be made: {error.strerror}", source="--out", value=str(out)
        ) from error
    try:
        job = _job(prepared, choice, out, clock, calibration, workspace or find_workspace(Path.cwd()))
        progress(Progress("open"))
        if isinstance(job, InProcessJob):
            execute_in_process(job, progress=progress, stop=stop)
        else:
            _open(job.sut)
            if isinstance(job, VirtualJob):
                execute_virtual(job, progress=progress, stop=stop)
            else:
                execute(job, progress=progress, stop=stop)
    finally:
        _tidy(out, there)


def judge_run(
    folder: Path, ruleset: Ruleset | None = None, *, run_program: Runner | None = None
) -> dict[str, Any]:
    """Measure and judge the run in ``folder`` and write both into its record.

    Args:
        run_program: runs answers that are programs; without it they have no score.

    Raises:
        EvidenceError: the evidence cannot be read.
    """
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    references = folder / "evidence" / "references.jsonl"
    evidence = load_evidence(folder / "evidence")
    kept = references.read_bytes() if references.exists() else None
    record["metrics"] = measure(evidence, record, kept, run_program=run_program)
    record["verdict"] = judge(record, ruleset or load_ruleset("fairmark-open-1"))
    write_json(folder / RECORD, record)
    return dict(record)


def _open(sut: SUT) -> None:
    """Open ``sut``, or close what a failed start left; once it is open, the run closes it."""
    try:
        ask("open", sut.open)
    except BaseException:
        sut.close()
        raise


def _job(
    prepared: Prepared,
    choice: SutChoice,
    out: Path,
    clock: Clock,
    calibration: Calibration,
    workspace: Path,
) -> RunJob | VirtualJob | InProcessJob:
    asked: dict[str, Any] = {
        "scenario": prepared.scenario,
        "scenario_source": prepared.text,
        "library": prepared.library,
        "references": prepared.references,
        "arrivals": prepared.arrivals,
        "mode": prepared.mode,
        "plans": prepared.plans,
        "sut_facts": {
            "name": choice.name,
            "plugin": identity(choice.cls),
            "options": options_record(choice.options),
        },
        "out": out,
        "workspace": workspace,
        "repetition": prepared.repetition,
        "series": prepared.series,
    }
    logs = out / "evidence" / "logs"
    traces = _traces(choice, out) if prepared.mode == "profile" else None
    shape = pick_shape(choice.cls, prepared.scenario.scenario)
    if clock == "real" and shape is not None and not issubclass(choice.cls, WireSUT):
        order = PluginOrder(
            choice.name,
            choice.plugins,
            choice.assignments,
            shape,
            str(logs.absolute()),
            None if traces is None else str(traces.absolute()),
            pick_isolation(choice.cls, shape, prepared.scenario),
        )
        return InProcessJob(**asked, plugin=order)
    sut = ask("the plugin", lambda: choice.cls(choice.options))
    sut.logs, sut.traces = logs, traces
    if clock == "virtual" and isinstance(sut, SimSUT):
        return VirtualJob(**asked, sut=sut)
    if clock == "real" and isinstance(sut, WireSUT):
        return RunJob(**asked, sut=sut, calibration=calibration)
    raise _wrong_shape(choice, clock)


def _traces(choice: SutChoice, out: Path) -> Path:
    """Where the profiler of the chosen system writes. Beside the evidence: nothing is derived from it."""
    if choice.cls.profile is SUT.profile:
        raise InputError(
            f"the system {choice.name} has no profiler",
            source="--profile",
            accepted="one whose class has `profile`",
        )
    folder = out / TRACES
    folder.mkdir()
    return folder


def _wrong_shape(choice: SutChoice, clock: Clock) -> InputError:
    has = shapes(choice.cls)
    kind = f"shape {', '.join(has)}" if has else "no shape that fairmark knows"
    problem = f"is of {kind}, which the {clock} clock cannot drive"
    accepted = {"real": "a plugin of another shape", "virtual": "a plugin of shape sim"}[clock]
    if clock == "real" and "sim" in has:
        accepted += ", or --clock virtual"
    elif clock == "virtual" and "wire" in has:
        accepted += ", or --clock real"
    return InputError(problem, source="--sut", value=choice.name, accepted=accepted)


def _tidy(out: Path, there: Sequence[Path]) -> None:
    """A run that was refused before its first query leaves nothing but what its system logged.

    Args:
        there: the folders that were there before the run.
    """
    if (out / RECORD).exists() or (out / "live").exists():
        return
    logs = out / "evidence" / "logs"
    for log in logs.iterdir():
        if not log.stat().st_size:
            log.unlink()
    for folder in (out / TRACES, logs, *logs.parents):
        if folder.name == TRACES and not folder.exists():
            continue
        if folder in there or any(folder.iterdir()):
            return
        folder.rmdir()
