"""`kafkakit sandbox load`: topics with real data."""

from contextlib import closing
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.session import finish
from kafkakit.sandbox.commands.options import DEFAULT_NAME, Name


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
    from kafkakit.sandbox import lifecycle
    from kafkakit.sandbox.decide.workload import build_request, plan_load
    from kafkakit.sandbox.folders import store_of
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
