"""`kafkakit registry serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.registry.commands.cleanup_options import PeriodicChoice
from kafkakit.registry.commands.options import KafkaChoice, LimitChoice, ListenChoice, TagPlace


@with_option_groups
def serve(
    ctx: typer.Context,
    kafka: KafkaChoice,
    place: TagPlace,
    listen: ListenChoice,
    limits: LimitChoice,
    cleaning: PeriodicChoice,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            "--audit-log", metavar="FILE", help="A line of JSON before and after each change.", show_default=False
        ),
    ] = None,
) -> None:
    """Answer questions about topics and brokers over HTTP and gRPC, and change tags and topics, until stopped.

    Calls, paths, messages and flags are those of kafka-kit's registry, and so are the tags in ZooKeeper. Reads are
    answered from the last reading of the cluster, whose age each reply states; what was written through this process
    is in them at once. It listens on this host only; other machines need TLS, and a token or a certificate. Without
    --token-file or --jwt-file only reads are answered, unless --no-token lets every process of the host write.

    Examples:

    \b
    kafkakit --profile prod registry serve --token-file /etc/kafkakit/registry-callers.yaml
    kafkakit registry serve --bootstrap-servers kafka1:9092 --zk-addr zk1:2181 --no-token
    """
    from contextlib import ExitStack

    from kafkakit.adapters.service_manager import notify_service
    from kafkakit.cli.session import open_session
    from kafkakit.core.durations import parse_duration
    from kafkakit.registry.act.reader_process import ReaderProcess
    from kafkakit.registry.act.run import RegistryServer, run_server
    from kafkakit.registry.commands.options import open_listeners, open_service, reader_of
    from kafkakit.registry.decide.inventory import Inventory

    cli = cli_context(ctx)
    kafka.apply(cli)
    place.apply(cli)
    access, tokens, tls = listen.access(), listen.signed_tokens(), listen.tls()
    refresh_s = parse_duration(limits.refresh, "--refresh")
    with ExitStack() as stack:
        session, inventory = stack.enter_context(open_session(cli)), Inventory()
        _ = session.settings
        reader = ReaderProcess(reader_of(cli, place), refresh_s)
        stack.callback(reader.stop)
        served = open_service(session, inventory, place, access, tokens, limits, audit_log)
        server = RegistryServer(served.first, inventory, open_listeners(served, listen, tls), cli.output.say)
        cleaning.start(cli, place, stack)
        files = listen.caller_files(served.first, tokens, cli.output.say)
        run_server(server, reader, session.clock, notify_service, files)
