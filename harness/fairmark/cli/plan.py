"""``fairmark plan``: the traffic of a run, before it is run."""

from __future__ import annotations

from typing import Literal

import click

from fairmark.cli.output import emit_json, json_option, set_option

__all__ = ["plan"]

Mode = Literal["performance", "accuracy"]


@click.command(epilog="Example: fairmark plan smollm2-gsm8k-server --set settings.target_qps=2 --json")
@click.argument("scenario")
@set_option
@click.option(
    "--mode", type=click.Choice(["performance", "accuracy"]), default="performance", show_default=True
)
@click.option(
    "--repetition",
    type=click.IntRange(0, 2**31 - 1),
    default=0,
    show_default=True,
    help="Fresh schedule seeds.",
)
@json_option
def plan(scenario: str, overrides: tuple[str, ...], mode: Mode, repetition: int, as_json: bool) -> None:
    """Show which samples SCENARIO sends, and when.

    With the same seeds, sample count and settings the plan is bit-identical to MLCommons LoadGen 6.0. A
    closed loop has a reserve beyond what LoadGen generates, in case the expected rate was too low.
    """
    from fairmark.study.prepare import prepare

    prepared = prepare(scenario, overrides, mode=mode, repetition=repetition)
    traffic = prepared.plans[mode]
    per_query = traffic.query_offsets[1:] - traffic.query_offsets[:-1]
    samples_per_query = int(per_query[0]) if len(per_query) else 0
    if as_json:
        emit_json(
            {
                "scenario": prepared.scenario.scenario,
                "scenario_digest": prepared.scenario.digest,
                "mode": mode,
                "plan_sha256": prepared.plan_sha256[mode],
                "samples_per_query": samples_per_query,
                "query_count": len(per_query),
                "generated_query_count": traffic.generated_query_count,
                "duration_ns": traffic.generated_duration_ns,
                "sample_index": traffic.sample_index.tolist(),
                "scheduled_ns": traffic.scheduled_ns.tolist(),
            }
        )
        return
    click.echo(f"{prepared.scenario.name} ({prepared.scenario.scenario}, {mode})")
    click.echo(f"  scenario {prepared.scenario.digest}")
    click.echo(f"  plan     {prepared.plan_sha256[mode]}")
    reserve = len(per_query) - traffic.generated_query_count
    more = f", {reserve} of them beyond LoadGen's list" if reserve else ""
    click.echo(f"  {len(per_query)} queries of {samples_per_query} samples{more}")
    click.echo(f"  duration {traffic.generated_duration_ns / 1e9:.3f} s")
    for query in range(min(5, len(per_query))):
        first = traffic.query_offsets[query]
        shown = traffic.sample_index[first : first + min(8, samples_per_query)].tolist()
        more = " …" if samples_per_query > 8 else ""
        click.echo(f"  at {traffic.scheduled_ns[query] / 1e9:9.6f} s: {', '.join(map(str, shown))}{more}")
