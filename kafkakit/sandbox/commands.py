"""`kafkakit sandbox`: real Kafka clusters on this machine, and what is done with them (`load`, `demo`, `exec`)."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.session import finish
from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.decide.processes import sandbox_profiles
from kafkakit.sandbox.decide.spec import (
    KRAFT_VERSION,
    ZOOKEEPER_VERSION,
    ClientSecurity,
    MetadataMode,
    build_spec,
    parse_log_dirs,
    parse_racks_of,
)
from kafkakit.sandbox.folders import store_of
from kafkakit.sandbox.lifecycle import node_statuses
from kafkakit.sandbox.report import down_report, env_report, kill_report, restart_report, status_report, up_report
from kafkakit.wiring import this_machine

if TYPE_CHECKING:
    from kafkakit.ports.admin import ClusterAdmin
    from kafkakit.ports.data import DataPlane


app = new_group("Run a real local Kafka cluster to try things on.")

DEFAULT_NAME = "sandbox"
Name = Annotated[str, typer.Option("--name", metavar="NAME", help="Sandbox to use; also the name of its profile.")]
BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="Broker id, such as 1001.")]
ModeOption = Annotated[MetadataMode, typer.Option("--mode", help="Where the cluster's metadata is kept.")]
SecureOption = Annotated[
    ClientSecurity, typer.Option("--secure", help="What clients need: certificates (tls), passwords (scram), or both.")
]


@app.command("up", cls=CliCommand)
def start_cluster(
    ctx: typer.Context,
    brokers: Annotated[int, typer.Option("--brokers", help="Number of brokers; their ids are 1001 and up.")] = 3,
    racks: Annotated[
        int | None, typer.Option("--racks", help="Number of racks (a, b, ...), used in turn; 3 when not given.")
    ] = None,
    log_dirs: Annotated[
        str,
        typer.Option(
            "--log-dirs",
            metavar="N,...",
            help="Log directories of each broker; 1,2,3 gives brokers 1, 2 and 3 in turn.",
        ),
    ] = "1",
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka",
            metavar="VERSION",
            help=f"Kafka version; {KRAFT_VERSION}, or {ZOOKEEPER_VERSION} with ZooKeeper, when not given.",
        ),
    ] = None,
    mode: ModeOption = MetadataMode.KRAFT,
    secure: SecureOption = ClientSecurity.NONE,
    rack_of: Annotated[
        list[str] | None,
        typer.Option(
            "--rack-of", metavar="ID=RACK", help="The rack of a broker instead of the next in turn. Repeatable."
        ),
    ] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Start a cluster and write a profile of its name.

    A running cluster is left as it is, but a larger --brokers adds brokers. After a failure or Ctrl-C no process
    that was started stays running.

    Examples:

    \b
    kafkakit sandbox up --brokers 6 --racks 3
    """
    from kafkakit.config.read.settings import open_profiles
    from kafkakit.sandbox.lifecycle import grow

    cli = cli_context(ctx)
    spec = build_spec(
        name=name,
        brokers=brokers,
        racks=min(3, max(brokers, 1)) if racks is None else racks,
        log_dirs=parse_log_dirs(log_dirs),
        kafka=kafka,
        mode=mode,
        secure=secure,
        rack_of=parse_racks_of(rack_of or ()),
    )
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    defined = open_profiles(cli.given, lambda _: None).files.profile_names().get(name)
    store.refuse_taken_name(defined.path if defined else None)
    grown = grow(machine, store, spec, cli.output)
    state, started = (grown, True) if grown else lifecycle.start_sandbox(machine, store, spec, cli.output)
    if not started:
        cli.output.say(f"sandbox {name} runs already")
    finish(cli, up_report(state, node_statuses(machine, store, state), str(store.profile_file(name))))


@app.command("down", cls=CliCommand)
def stop_cluster(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Stop the cluster, and delete its data and profile.

    Examples:

    \b
    kafkakit sandbox down
    """
    from kafkakit.config.read.settings import open_profiles

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    stopped = lifecycle.stop_sandbox(machine, store)
    own = {user for user in sandbox_profiles(name) if not store.profile_file(user).exists()}
    forgotten = open_profiles(cli.given, lambda _: None).forget(own) if stopped is not None else None
    finish(cli, down_report(name, stopped, forgotten))


@app.command("status", cls=CliCommand)
def status(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Show each process: pid, address, rack, state, log.

    Examples:

    \b
    kafkakit sandbox status
    """
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    state = lifecycle.load_state(store)
    finish(cli, status_report(state, node_statuses(machine, store, state), str(store.profile_file(name))))


@app.command("env", cls=CliCommand)
def env(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Print shell commands that select the cluster.

    Examples:

    \b
    eval "$(kafkakit sandbox env)"
    """
    cli = cli_context(ctx)
    finish(cli, env_report(lifecycle.load_state(store_of(name, cli.folders.state, cli.folders.config))))


@app.command("kill", cls=CliCommand)
def kill(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Kill a broker with SIGKILL, as a crash would; its data stays.

    Examples:

    \b
    kafkakit sandbox kill 3
    """
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    finish(cli, kill_report(broker, lifecycle.kill(machine, store, broker)))


@app.command("restart", cls=CliCommand)
def restart(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Start a dead broker, or stop and start a live one.

    Examples:

    \b
    kafkakit sandbox restart 3
    """
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    finish(cli, restart_report(broker, lifecycle.restart(machine, store, broker, cli.output)))


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
    """Create topics of very different sizes, with real data.

    Examples:

    \b
    kafkakit --profile sandbox sandbox load
    """
    from kafkakit.core.quantities import format_bytes
    from kafkakit.sandbox.decide.workload import build_request, plan_load
    from kafkakit.sandbox.demo import load as write_load
    from kafkakit.sandbox.report import load_report
    from kafkakit.wiring import open_data_of, this_machine

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    state = lifecycle.load_state(store)
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
    mode: ModeOption = MetadataMode.KRAFT,
    secure: SecureOption = ClientSecurity.NONE,
    data: Annotated[
        str, typer.Option("--data", metavar="SIZE", help="Bytes to load before the broker dies.")
    ] = "300MB",
    throttle: Annotated[str, typer.Option("--throttle", metavar="RATE", help="Throttle of the moves.")] = "20MB",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="The sandbox that the demo starts.")] = "demo",
) -> None:
    """Kill a broker under load, replace it, lose nothing.

    Starts six brokers, kills one, plans and applies its replacement, and verifies every record.

    Each command is shown before it runs. The cluster is removed at the end, also after Ctrl-C.

    Examples:

    \b
    kafkakit sandbox demo
    """
    from kafkakit.config.read.environment import read_environment
    from kafkakit.config.read.settings import GivenSettings, load_settings
    from kafkakit.sandbox.decide.workload import DemoRequest, demo_environment
    from kafkakit.sandbox.demo import DemoTools, refuse_existing, run_demo
    from kafkakit.sandbox.report import demo_report
    from kafkakit.wiring import open_admin, open_data, system_clock

    cli = cli_context(ctx)
    refuse_existing(store_of(name, cli.folders.state, cli.folders.config))
    environment = demo_environment(read_environment())

    def connect() -> "tuple[ClusterAdmin, DataPlane]":
        settings = load_settings(GivenSettings(profile=name), environment, warn=cli.output.warn, input_allowed=False)
        return open_admin(settings), open_data(settings)

    request = DemoRequest(name=name, mode=mode, secure=secure, data=data, throttle=throttle)
    tools = DemoTools(clock=system_clock(), reporter=cli.output, environment=environment)
    finish(cli, demo_report(run_demo(request, tools, connect)))


def tool_names(incomplete: str) -> list[str]:
    """Kafka's tools whose names begin with what is typed."""
    from kafkakit.sandbox.decide.processes import TOOLS

    return [name for name in TOOLS if name.startswith(incomplete)]


def execute(
    ctx: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(metavar="TOOL [ARGUMENT]...", help="One of Kafka's tools.", autocompletion=tool_names),
    ],
    name: Name = DEFAULT_NAME,
) -> None:
    """Run one of Kafka's own tools on the cluster.

    Its address and login are filled in.

    Output and exit code come from the tool. Its jars are downloaded once.

    Examples:

    \b
    kafkakit sandbox exec -- kafka-topics --list
    kafkakit sandbox exec -- kafka-consumer-groups --describe --all-groups
    """
    from kafkakit.sandbox.demo import run_tool

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    run_tool(machine, store, words, cli.output)


app.command("load", cls=CliCommand)(load)
app.command("demo", cls=CliCommand)(demo)
app.command(
    "exec", cls=CliCommand, context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True}
)(execute)
