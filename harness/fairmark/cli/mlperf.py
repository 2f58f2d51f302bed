"""``fairmark mlperf``: the border to MLPerf's logs and configuration files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairmark.cli.output import emit_json, json_option
from fairmark.errors import InputError

if TYPE_CHECKING:
    from fairmark.mlperf.record import Division

__all__ = ["mlperf"]


@click.group(epilog="Example: fairmark mlperf read results/server/performance/run_1")
def mlperf() -> None:
    """Read MLPerf result folders and LoadGen configuration files."""


@mlperf.command(epilog="Example: fairmark mlperf read results/server/performance/run_1 --json")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--ruleset", help="Judge by a round too: mlperf-inference-6.1, 6.0, 5.1, 5.0 or 4.1.")
@click.option("--benchmark", help="The benchmark of the round; default: what the folder's name tells.")
@click.option(
    "--division",
    type=click.Choice(["closed", "network", "open"]),
    help="What may be chosen freely; default: closed.",
)
@json_option
def read(
    folder: Path, ruleset: str | None, benchmark: str | None, division: Division | None, as_json: bool
) -> int:
    """Recompute and judge what LoadGen logged in FOLDER.

    Exits 1 when the run is not valid, or when a printed value does not follow from the others.
    """
    from fairmark.mlperf.folder import judge_folder, read_folder

    if ruleset is None:
        if benchmark or division:
            option = "--benchmark" if benchmark else "--division"
            raise InputError("means nothing without a round", source=option, accepted="with --ruleset")
        result = read_folder(folder)
    else:
        result = judge_folder(folder, ruleset, benchmark=benchmark, division=division or "closed")
    invalid = result["verdict"] != "VALID" or any(f["severity"] == "error" for f in result["findings"])
    if as_json:
        emit_json(result)
        return int(invalid)
    click.echo(f"{result['verdict']}  {folder}  (LoadGen: {result['loadgen_verdict'] or 'not stated'})")
    for finding in result["findings"]:
        click.echo(f"  {finding['severity']:<7} {finding['id']}: {finding['message']}")
    for rule in result.get("judgement", {}).get("rules", ()):
        if rule["outcome"] != "pass":
            click.echo(f"  {rule['severity']:<7} {rule['section']} {rule['id']}: {rule['message']}")
    return int(invalid)


@mlperf.command(epilog="Example: fairmark mlperf conf user.conf --model llama2-70b --scenario Server")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--model", required=True, help="The model key of the configuration, such as llama2-70b.")
@click.option(
    "--scenario",
    required=True,
    type=click.Choice(["SingleStream", "MultiStream", "Server", "Offline"]),
    help="LoadGen's name of the scenario.",
)
@click.option("--audit", type=click.Path(path_type=Path), help="An audit.config, which wins over FILE.")
@json_option
def conf(file: Path | None, model: str, scenario: str, audit: Path | None, as_json: bool) -> None:
    """Show what LoadGen makes of its built-in values and the user.conf FILE.

    Prints the tables of a scenario file that these settings decide, and where each value comes from.
    """
    from fairmark.mlperf.conf import read_conf, resolve
    from fairmark.mlperf.scenario import inexpressible, scenario_tables

    user_conf = None if file is None else read_conf(file)
    audit_conf = None if audit is None else read_conf(audit)
    resolved = resolve(model, scenario, user=user_conf, audit=audit_conf)
    tables = scenario_tables(resolved)
    remarks = [*resolved.remarks, *inexpressible(resolved)]
    if as_json:
        emit_json(
            {
                "scenario": tables,
                "values": dict(resolved.values),
                "origin": dict(resolved.origin),
                "remarks": remarks,
            }
        )
        return
    for remark in remarks:
        click.echo(f"# {remark}")
    for name, value in tables.items():
        if isinstance(value, dict):
            click.echo(f"\n[{name}]")
            for key, item in value.items():
                click.echo(f"{key} = {_toml(item)}")
        else:
            click.echo(f"{name} = {_toml(value)}")
    for key, origin in resolved.origin.items():
        click.echo(f"# {key} = {resolved.values[key]}: {origin}")


def _toml(value: object) -> str:
    """A plain value as TOML writes it; strings, numbers and booleans are JSON there."""
    return json.dumps(value)
