"""`kafkakit sandbox load`, `demo` and `exec`: what is done with a sandbox."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish
from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.commands.options import DEFAULT_NAME, ModeOption, Name, SecureOption, tool_names
from kafkakit.sandbox.decide.spec import Mode, Secure
from kafkakit.sandbox.folders import store_of

if TYPE_CHECKING:
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.data import DataPlane


def load(
    ctx: typer.Context,
    topics: Annotated[int, typer.Option("--topics", help="Number of topics.")] = 10,
    partitions: Annotated[int, typer.Option("--partitions", help="Partitions of each topic.")] = 6,
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Bytes to write in all, before replication: 500MB, 2GiB.")
    ] = "100MB",
    seed: Annotated[int, typer.Option("--seed", help="The same seed makes the same topics and sizes.")] = 0,
    replication: Annotated[
        int | None, typer.Option("--replication", help="Copies of each partition; 3, or less with fewer brokers.")
    ] = None,
    prefix: Annotated[str, typer.Option("--prefix", help="Prefix of the topic names.")] = "load",
    name: Name = DEFAULT_NAME,
) -> None:
    """Create topics of very different sizes, unevenly spread over the brokers, and fill them with real data."""
    from kafkakit.core.quantities import format_bytes
    from kafkakit.sandbox.decide.workload import build_request, plan_load
    from kafkakit.sandbox.load import load as write_load
    from kafkakit.sandbox.show import load_report
    from kafkakit.wiring import open_data_of, this_machine

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    state = lifecycle.loaded(store)
    request = build_request(
        topics=topics,
        partitions=partitions,
        data=data,
        seed=seed,
        replication=replication,
        brokers=state.spec.brokers,
        prefix=prefix,
    )
    loads = plan_load(request, {node.id: node.rack or "" for node in state.layout.brokers})
    servers, security = state.layout.bootstrap_servers, lifecycle.admin_security(state, store)
    label = f"writing {format_bytes(request.data_bytes)} to {topics} topics"
    with closing(machine.open_admin(servers, security)) as admin, cli.output.progress(label) as progress:
        records = write_load(admin, open_data_of(servers, security), machine.clock, loads, seed, progress)
    finish(cli, load_report(request, loads, records))


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
    from kafkakit.sandbox.show import demo_report
    from kafkakit.wiring import open_admin, open_data, system_clock

    cli = cli_context(ctx)
    refuse_existing(store_of(name, cli.folders.state, cli.folders.config))
    environment = demo_environment(read_environment())

    def connect() -> "tuple[ClusterAdmin, DataPlane]":
        settings = load_settings(Given(profile=name), environment, warn=cli.output.warn, input_allowed=False)
        return open_admin(settings), open_data(settings)

    request = DemoRequest(name=name, mode=mode, secure=secure, data=data, throttle=throttle)
    tools = DemoTools(clock=system_clock(), reporter=cli.output, environment=environment)
    finish(cli, demo_report(run_demo(request, tools, connect)))


def execute(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="TOOL [ARGUMENT]...", help="One of Kafka's tools.", autocompletion=tool_names),
    ],
    name: Name = DEFAULT_NAME,
) -> None:
    """Run one of Kafka's own tools on the cluster, with its address and login filled in.

    The tool's output and exit code are those of the command. Its jars are downloaded once.

    Examples:

    \b
    kafkakit sandbox exec -- kafka-topics --list
    kafkakit sandbox exec -- kafka-consumer-groups --describe --all-groups
    """
    from kafkakit.sandbox.tools import run_tool
    from kafkakit.wiring import this_machine

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    run_tool(machine, store, words, cli.output)
