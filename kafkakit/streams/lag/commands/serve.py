"""`kafkakit streams lag serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkakit.cli.command_classes import cli_context
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.streams.lag.commands.options import ClusterChoice

DEFAULT_LISTEN = "127.0.0.1:9105"


@with_option_groups
def serve(
    ctx: typer.Context,
    which: ClusterChoice,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address of the HTTP server; it is neither encrypted nor authenticated.",
        ),
    ] = DEFAULT_LISTEN,
    dogstatsd: Annotated[
        str | None,
        typer.Option(
            "--dogstatsd",
            metavar="HOST:PORT",
            help="Send the metrics to a Datadog agent every 10 s, too.",
            show_default=False,
        ),
    ] = None,
    series: Annotated[
        int,
        typer.Option(
            "--series",
            min=10,
            max=100_000,
            metavar="N",
            help="The most group-topics, and the most partitions, that get their own series.",
        ),
    ] = 1000,
    partition_series: Annotated[
        list[str] | None,
        typer.Option(
            "--partition-series",
            metavar="GLOB",
            help="Partitions of groups whose name matches get series, too (kafkakit_lag_partition_...). Repeatable.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Monitor the lag of all groups and serve it: /metrics for Prometheus, /json?by=group for views, /healthz.

    Several instances with the same control store share the clusters: each monitors its part, the clusters of one
    that ends are taken over within seconds, and one that lost its lease no longer publishes that cluster. The state
    is saved every minute and at the end, so that a restart does not read the whole commit log again. SIGTERM ends
    it with exit 143, after the states are saved and the clusters released.

    Examples:

    \b
    kafkakit --profile prod streams lag serve
    kafkakit streams lag serve --clusters prod-a,prod-b --listen 0.0.0.0:9105 --dogstatsd 127.0.0.1:8125
    kafkakit --profile prod streams lag serve --partition-series 'orders-*' --partition-series billing
    curl -s 'http://127.0.0.1:9105/json?by=group&group=orders-*'
    """
    from contextlib import ExitStack, closing

    from kafkakit.adapters.http_server import HttpServer, parse_listen
    from kafkakit.adapters.metrics.dogstatsd import DogStatsd
    from kafkakit.adapters.own_process import life_of, this_holder
    from kafkakit.adapters.service_manager import notify_service, resident_bytes
    from kafkakit.cli.session import open_session
    from kafkakit.core.http_page import answer_pages
    from kafkakit.streams.lag.act.cluster_shares import ClusterShares
    from kafkakit.streams.lag.act.fleet import Fleet
    from kafkakit.streams.lag.act.serve import LagService, run_service
    from kafkakit.streams.lag.decide.shares import instance_name
    from kafkakit.streams.lag.show.pages import service_pages
    from kafkakit.streams.lag.show.service_metrics import published_datagrams

    cli = cli_context(ctx)
    host, _ = parse_listen(listen)
    partition_groups = tuple(partition_series or ())
    clusters, context = which.monitored(cli), which.context(cli)
    holder = this_holder("kafkakit streams lag serve")
    with ExitStack() as stack:
        sender = None if dogstatsd is None else stack.enter_context(closing(DogStatsd(dogstatsd)))
        session = stack.enter_context(open_session(cli))
        shares = ClusterShares(
            session.control, session.clock, holder, instance_name(holder), life_of=life_of, warn=cli.output.warn
        )
        service = LagService(Fleet(clusters, context), shares, session.clock, cli.output.say)
        pages = service_pages(service.published, service.is_healthy, series, partition_groups)
        server = stack.enter_context(closing(HttpServer(listen, answer_pages(pages))))
        if host not in ("127.0.0.1", "::1", "localhost"):
            cli.output.warn(
                f"{server.address} can be reached from other machines, without authentication or encryption"
            )
        cli.output.say(f"serving http://{server.address}/metrics, /json and /healthz for {len(clusters)} clusters")
        run_service(
            service,
            session.clock,
            report=cli.output.say,
            notify=notify_service,
            memory_bytes=resident_bytes,
            send=None
            if sender is None
            else lambda published: sender.send(published_datagrams(published, series, partition_groups)),
        )
