"""``fairmark check``, ``audit`` and ``verify``: three ways not to take somebody's word for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairmark.cli.output import VERDICT_EXIT, code_option, counted, emit_json, json_option, program_runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairmark.bundle.findings import Finding

__all__ = ["audit", "check", "verify"]

_MARKS = {"pass": "pass", "fail": "FAIL", "insufficient": "insufficient", "not_evaluable": "not evaluable"}


@click.command(
    epilog="Example: fairmark check runs/20261129T163000Z-gsm8k-server-ab12cd34 --ruleset fairmark-closed-1"
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--ruleset", default="fairmark-open-1", show_default=True, help="A shipped ruleset, or a folder of rules."
)
@click.option("--all", "show_all", is_flag=True, help="Show the rules that pass, too.")
@json_option
def check(path: Path, ruleset: str, show_all: bool, as_json: bool) -> int:
    """Judge the run, bundle or folder of runs at PATH by a ruleset.

    Judges the numbers as recorded; `fairmark audit` recomputes them first.
    """
    from fairmark.bundle.run_folder import is_run, load_record, refuse_profile
    from fairmark.bundle.runs import runs_in
    from fairmark.judge.judge import judge
    from fairmark.judge.rules import load_ruleset
    from fairmark.judge.series import judge_series, series_of
    from fairmark.report.series import series_line

    rules = load_ruleset(ruleset)
    records = {str(folder): load_record(folder) for folder in runs_in([path])}
    for folder, record in records.items():
        refuse_profile(Path(folder), record)
    verdicts = {run: judge(record, rules) for run, record in records.items()}
    judged = [{**record, "verdict": verdicts[run]} for run, record in records.items()]
    together = [] if is_run(path) else [judge_series(group) for group in series_of(judged)]
    if as_json:
        of = {run["run_id"]: series for series in together for run in series["runs"]}
        emit_json([{"run": r, **v, **_of_series(of.get(records[r]["run_id"]))} for r, v in verdicts.items()])
    else:
        for series in together:
            click.echo(series_line(series))
        for run, verdict in verdicts.items():
            _show_verdict(run, verdict, show_all=show_all)
    return max(VERDICT_EXIT[v["verdict"]] for v in [*verdicts.values(), *together])


def _of_series(series: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the JSON of a run says of the repetitions that it is one of."""
    return {} if series is None else {"series": {name: series[name] for name in ("verdict", "reasons")}}


def _show_verdict(run: str, verdict: Mapping[str, Any], *, show_all: bool) -> None:
    click.echo(f"{verdict['verdict']}  {run}  ({verdict['ruleset']})")
    passed = 0
    for rule in verdict["rules"]:
        if rule["outcome"] == "pass" and not show_all:
            passed += 1
            continue
        level = " (warning)" if rule["severity"] == "warning" and rule["outcome"] != "pass" else ""
        click.echo(f"  {_MARKS[rule['outcome']]:<13} {rule['id']}{level}: {rule['message']}")
        if rule["outcome"] != "pass":
            click.echo(f"  {'':<13} expected {rule['expected']} at {rule['where']}; fix: {rule['fix']}")
    apart = len(verdict["not_applicable"])
    click.echo(
        f"  {passed} rules pass, {apart} do not apply" if not show_all else f"  {apart} rules do not apply"
    )


@click.command(epilog="Example: fairmark audit submissions/acme/open/my-box")
@click.argument("path", type=click.Path(path_type=Path))
@code_option
@json_option
def audit(path: Path, allow_code_execution: bool, as_json: bool) -> int:
    """Recompute everything in the bundle or run at PATH from its evidence alone.

    Digests, plan, requests, events, every number and every verdict; exits 1 on any error-level finding.
    """
    from fairmark.audit.audit import audit as audit_path
    from fairmark.bundle.findings import has_errors

    report = audit_path(path, run_program=program_runner(allow_code_execution))
    if as_json:
        emit_json(dataclasses.asdict(report))
    else:
        _show_findings(report.findings, f"{counted(len(report.recomputed), 'run')} recomputed and equal")
    return int(has_errors(report.findings))


@click.command(epilog="Example: fairmark verify submissions/acme/open/my-box")
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def verify(bundle: Path, as_json: bool) -> int:
    """Check the files of BUNDLE against its manifest: none changed, missing, extra or linked."""
    from fairmark.bundle.findings import has_errors
    from fairmark.bundle.verify import verify as verify_bundle

    findings = verify_bundle(bundle)
    if as_json:
        emit_json({"bundle": str(bundle), "findings": [dataclasses.asdict(f) for f in findings]})
    else:
        _show_findings(findings, "every file is as the manifest lists it")
    return int(has_errors(findings))


def _show_findings(findings: Sequence[Finding], clean: str) -> None:
    for f in findings:
        click.echo(f"{f.severity:<7} {f.id}  {f.file}: {f.message}\n        fix: {f.fix}")
    errors = sum(f.severity == "error" for f in findings)
    warnings = counted(len(findings) - errors, "warning")
    click.echo(f"{counted(errors, 'error')}, {warnings}" if findings else f"ok: {clean}")
