"""`kafkakit sandbox`: real Kafka clusters on this machine."""

from typing import Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.session import finish
from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.commands.options import DEFAULT_NAME, BrokerId, ModeOption, Name, SecureOption
from kafkakit.sandbox.commands.using import demo, execute, load
from kafkakit.sandbox.decide.connection import sandbox_profiles
from kafkakit.sandbox.decide.spec import (
    KRAFT_VERSION,
    ZOOKEEPER_VERSION,
    Mode,
    Secure,
    build_spec,
    parse_log_dirs,
    parse_racks_of,
)
from kafkakit.sandbox.folders import store_of
from kafkakit.sandbox.show import down_report, env_report, kill_report, restart_report, status_report, up_report
from kafkakit.sandbox.watch import node_statuses
from kafkakit.wiring import this_machine

app = new_group("Run a real local Kafka cluster to try things on.")


@app.command("up", cls=CliCommand)
def up(
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
    mode: ModeOption = Mode.KRAFT,
    secure: SecureOption = Secure.NONE,
    rack_of: Annotated[
        list[str] | None,
        typer.Option(
            "--rack-of", metavar="ID=RACK", help="The rack of a broker instead of the next in turn. Repeatable."
        ),
    ] = None,
    name: Name = DEFAULT_NAME,
) -> None:
    """Start a cluster, wait until every broker is registered and unfenced, and write a profile of its name.

    A running cluster is left as it is, but a larger --brokers adds brokers. After a failure or Ctrl-C no process
    that was started stays running.
    """
    from kafkakit.config.read.settings import open_profiles
    from kafkakit.sandbox.grow import grow

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
    state, started = (grown, True) if grown else lifecycle.up(machine, store, spec, cli.output)
    if not started:
        cli.output.say(f"sandbox {name} runs already")
    finish(cli, up_report(state, node_statuses(machine, store, state), str(store.profile_file(name))))


@app.command("down", cls=CliCommand)
def down(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Stop the cluster's processes and delete its data, its secrets and its profile, and `profile use` of that."""
    from kafkakit.config.read.settings import open_profiles

    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    stopped = lifecycle.down(machine, store)
    own = {user for user in sandbox_profiles(name) if not store.profile_file(user).exists()}
    forgotten = open_profiles(cli.given, lambda _: None).forget(own) if stopped is not None else None
    finish(cli, down_report(name, stopped, forgotten))


@app.command("status", cls=CliCommand)
def status(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Show each process of the cluster: pid, address, rack, its state in the cluster, and its log."""
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    state = lifecycle.loaded(store)
    finish(cli, status_report(state, node_statuses(machine, store, state), str(store.profile_file(name))))


@app.command("env", cls=CliCommand)
def env(ctx: typer.Context, name: Name = DEFAULT_NAME) -> None:
    """Print shell commands that select the cluster in this shell: eval "$(kafkakit sandbox env)"."""
    cli = cli_context(ctx)
    finish(cli, env_report(lifecycle.loaded(store_of(name, cli.folders.state, cli.folders.config))))


@app.command("kill", cls=CliCommand)
def kill(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Kill a broker with SIGKILL, as a crash would; its data stays."""
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    finish(cli, kill_report(broker, lifecycle.kill(machine, store, broker)))


@app.command("restart", cls=CliCommand)
def restart(ctx: typer.Context, broker: BrokerId, name: Name = DEFAULT_NAME) -> None:
    """Start a dead broker, or stop and start a live one, and wait until it is registered and unfenced."""
    cli = cli_context(ctx)
    machine, store = this_machine(cli.folders.cache), store_of(name, cli.folders.state, cli.folders.config)
    finish(cli, restart_report(broker, lifecycle.restart(machine, store, broker, cli.output)))


app.command("load", cls=CliCommand)(load)
app.command("demo", cls=CliCommand)(demo)
app.command(
    "exec", cls=CliCommand, context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True}
)(execute)
