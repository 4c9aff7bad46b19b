"""`kafkakit streams demo`."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish

if TYPE_CHECKING:
    from kafkakit.ports.stores import ControlStore


def demo(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The demo starts the sandboxes NAME-a and NAME-b.")
    ] = "streams-demo",
    rate: Annotated[int, typer.Option("--rate", metavar="N", help="Records that are written each second.")] = 400,
    phase: Annotated[str, typer.Option("--phase", metavar="DURATION", help="How long a phase takes, at least.")] = "3s",
) -> None:
    """Show a stream while things go wrong, and count that no record was lost. Takes about a minute.

    Starts two clusters of one broker each. While producers write and consumers handle, there is a record that no
    handler can read, a batch that is too large to be decoded, an outage of a database, and a burst on one lane; then
    the stream moves to the second cluster. The commands for clusters, topics and lanes are shown before they run. Both
    clusters are removed at the end, even after Ctrl-C. Exits 1 when a record was lost.

    Examples:

    \b
    kafkakit streams demo
    kafkakit streams demo --rate 1000 --phase 10s -o json
    """
    from kafkakit.config.read.environment import read_environment
    from kafkakit.config.read.settings import GivenSettings, load_settings
    from kafkakit.core.quantities import parse_duration
    from kafkakit.sandbox.api import demo_environment
    from kafkakit.sandbox.api_act import DemoTools, refuse_existing, store_of
    from kafkakit.streams.client.connect import connect
    from kafkakit.streams.demo.act import DemoSession, run_streams_demo
    from kafkakit.streams.demo.decide import DemoPlan, summary_report
    from kafkakit.wiring import open_control, system_clock

    cli = cli_context(ctx)
    plan = DemoPlan(name=name, rate=rate, phase_s=parse_duration(phase, "--phase"))
    refuse_existing(store_of(plan.home, cli.folders.state, cli.folders.config))
    refuse_existing(store_of(plan.other, cli.folders.state, cli.folders.config))
    # Routes in a topic of the first cluster: they are removed with it.
    environment = {**demo_environment(read_environment()), "KAFKAKIT_CONTROL_STORE": "kafka"}

    def open_routes() -> "ControlStore":
        return open_control(
            load_settings(GivenSettings(profile=plan.home), environment, warn=cli.output.warn, input_allowed=False)
        )

    session = DemoSession(
        open_client=lambda: connect(plan.home, environment=environment),
        open_control=open_routes,
        open_screen=cli.output.screen,
        in_place=cli.output.animate,
    )
    tools = DemoTools(clock=system_clock(), reporter=cli.output, environment=environment)
    finish(cli, summary_report(run_streams_demo(plan, tools, session)))
