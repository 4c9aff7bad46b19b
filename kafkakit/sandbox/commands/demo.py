"""`kafkakit sandbox demo`: a real cluster loses a broker and gets its replicas back, with the commands shown."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish
from kafkakit.sandbox.commands.options import ModeOption, SecureOption
from kafkakit.sandbox.decide.spec import Mode, Secure

if TYPE_CHECKING:
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.data import DataPlane


def demo(
    ctx: typer.Context,
    mode: ModeOption = Mode.KRAFT,
    secure: SecureOption = Secure.NONE,
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Bytes to load before the broker dies.")
    ] = "300MB",
    throttle: Annotated[str, typer.Option("--throttle", metavar="RATE", help="Throttle of the moves.")] = "20MB",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The sandbox that the demo starts.")] = "demo",
) -> None:
    """Start six brokers, kill one under load, plan and apply its replacement, and verify that no record was lost.

    Each command is shown before it runs. The cluster is removed at the end, also after Ctrl-C.
    """
    from kafkakit.config.read.environment import read_environment
    from kafkakit.config.read.settings import Given, load_settings
    from kafkakit.sandbox.decide.demo import DemoRequest, demo_environment
    from kafkakit.sandbox.demo import DemoTools, refuse_existing, run_demo
    from kafkakit.sandbox.folders import store_of
    from kafkakit.sandbox.show import demo_report
    from kafkakit.wiring import open_admin, open_data, system_clock

    cli = cli_context(ctx)
    refuse_existing(store_of(name, cli.folders.state, cli.folders.config))
    environment = demo_environment(read_environment())

    def connect() -> "tuple[ClusterAdmin, DataPlane]":
        settings = load_settings(Given(profile=name), environment, warn=cli.output.warn, input_allowed=False)
        return open_admin(settings), open_data(settings)

    request = DemoRequest(name=name, mode=mode, secure=secure, data=data, throttle=throttle)
    tools = DemoTools(clock=system_clock(), reporter=cli.output, environment=environment, connect=connect)
    finish(cli, demo_report(run_demo(request, tools)))
