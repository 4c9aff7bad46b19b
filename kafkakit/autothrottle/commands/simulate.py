"""`kafkakit autothrottle simulate`."""

from __future__ import annotations

import typer

from kafkakit.autothrottle.commands.law_options import LawChoice
from kafkakit.autothrottle.commands.options import TrafficChoice
from kafkakit.autothrottle.commands.simulate_options import ComparedLaws, SimulatedMoves
from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups


@with_option_groups
def simulate(
    ctx: typer.Context, moves: SimulatedMoves, law: LawChoice, compared: ComparedLaws, traffic: TrafficChoice
) -> int:
    """Play a law against moves beside client traffic, on simulated brokers: how long they take, and when clients wait.

    Changes nothing. The moves are those that run now, with the client traffic of now, or those of a file or a plan.
    Brokers apply throttles like real ones, with their bursts and stalls. Clients wait while their bytes are held up
    for more than 250 ms. Overrides and throttles of others do not count.

    Examples:

    \b
    kafkakit --profile prod autothrottle simulate --prometheus-url http://prometheus:9090 --capacity 1.25GB
    kafkakit autothrottle simulate --from scenario.yaml --compare slo,headroom,fixed:40MB
    kafkakit autothrottle simulate --plan plan.json --capacity 1.25GB --client-rate 500MB --clients 100%,40%@6h
    """
    from kafkakit.autothrottle.act.simulate import play_laws
    from kafkakit.autothrottle.show.simulate import simulation_report
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.quantities import parse_percent

    cli = cli_context(ctx)
    laws = compared.build(law)
    tick_s, window_s = compared.times_s(traffic.metrics)
    reserve = float(parse_percent(law.reserve, "--reserve"))
    with open_session(cli, read_only=True) as session:
        scenario, notes = moves.read(cli, session, law, traffic)
    found = play_laws(scenario, laws, cli.output, reserve=reserve, tick_s=tick_s, window_s=window_s)
    return finish(cli, simulation_report(found, notes))
