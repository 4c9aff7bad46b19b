"""`kafkakit streams lag serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import kit_of
from kafkakit.streams.lag.commands.options import Clusters, Skew, means_of, settings_of, sources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkakit.cli.kit import Kit
    from kafkakit.ports.clock import Clock
    from kafkakit.ports.control import ControlStore
    from kafkakit.streams.lag.act.cluster_shares import ClusterShares
    from kafkakit.streams.lag.act.http_server import HttpPage, Query
    from kafkakit.streams.lag.act.serve import LagService
    from kafkakit.streams.lag.decide.published import Published

METRICS_MEDIA = "text/plain; version=0.0.4; charset=utf-8"
JSON_MEDIA = "application/json"
DEFAULT_LISTEN = "127.0.0.1:9105"


def serve(
    ctx: typer.Context,
    clusters: Clusters = None,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Answer HTTP here; it is neither encrypted nor guarded."),
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
            "--series", min=10, max=100_000, metavar="N", help="The most group-topics that get series of their own."
        ),
    ] = 1000,
    skew: Skew = "1s",
) -> None:
    """Watch the lag of all groups and serve it: /metrics for Prometheus, /json?by=group for views, /healthz.

    Several instances with the same control store share the clusters: each carries its part, the clusters of one that
    ends are taken over within seconds, and one that lost its lease publishes nothing of that cluster any more. The
    state is saved every minute and at the end, so that a restart need not read the whole commit log again. SIGTERM
    ends it with exit 143 after everything was put away.

    Examples:

    \b
    kafkakit --profile prod streams lag serve
    kafkakit streams lag serve --clusters prod-a,prod-b --listen 0.0.0.0:9105 --dogstatsd 127.0.0.1:8125
    curl -s 'http://127.0.0.1:9105/json?by=group&group=orders-*'
    """
    from contextlib import ExitStack, closing

    from kafkakit.adapters.metrics.dogstatsd import DogStatsd
    from kafkakit.adapters.service_manager import notify_service, resident_bytes
    from kafkakit.streams.lag.act.clusters import Fleet
    from kafkakit.streams.lag.act.http_server import LagServer, parse_listen
    from kafkakit.streams.lag.act.serve import LagService
    from kafkakit.streams.lag.act.serve import serve as run_service
    from kafkakit.wiring import open_control

    kit = kit_of(ctx)
    host, _ = parse_listen(listen)
    sources = sources_of(settings_of(kit, clusters))
    means = means_of(kit, skew)
    with ExitStack() as stack:
        sender = None if dogstatsd is None else stack.enter_context(closing(DogStatsd(dogstatsd)))
        store = stack.enter_context(closing(open_control(kit.settings)))
        service = LagService(Fleet(sources, means), _shares(kit, store, means.clock), means.clock, kit.output.say)
        server = stack.enter_context(closing(LagServer(listen, _pages(service, series))))
        if host not in ("127.0.0.1", "::1", "localhost"):
            kit.output.warn(f"{server.address} can be reached from other machines, by anybody and without encryption")
        kit.output.say(f"serving http://{server.address}/metrics, /json and /healthz for {len(sources)} clusters")
        run_service(
            service,
            means.clock,
            say=kit.output.say,
            notify=notify_service,
            memory_bytes=resident_bytes,
            send=None if sender is None else _send_to(sender.send, series),
        )


def _shares(kit: Kit, store: ControlStore, clock: Clock) -> ClusterShares:
    """This instance's part in the sharing; its name is that of the process, so that it never comes again."""
    from kafkakit.adapters.own_process import life_of, this_holder
    from kafkakit.streams.lag.act.cluster_shares import ClusterShares
    from kafkakit.streams.lag.decide.shares import instance_name

    holder = this_holder("kafkakit streams lag serve")
    return ClusterShares(store, clock, holder, instance_name(holder), life_of=life_of, say=kit.output.warn)


def _pages(service: LagService, series: int) -> dict[str, Callable[[Query], HttpPage]]:
    from kafkakit.streams.lag.act.http_server import HttpPage
    from kafkakit.streams.lag.show.metrics_text import exposition
    from kafkakit.streams.lag.show.pages import health_page, json_page
    from kafkakit.streams.lag.show.service_metrics import all_families, instance_data

    def metrics(query: Query) -> HttpPage:
        del query
        seen = service.seen()
        return HttpPage(body=exposition(all_families(seen, series)).encode(), media=METRICS_MEDIA)

    def views(query: Query) -> HttpPage:
        seen = service.seen()
        return HttpPage(
            body=json_page(query, seen.tables, seen.conditions, seen.at_ms, instance_data(seen)), media=JSON_MEDIA
        )

    def health(query: Query) -> HttpPage:
        del query
        seen, is_healthy = service.seen(), service.is_healthy()
        return HttpPage(
            body=health_page(is_healthy, seen.conditions, instance_data(seen)),
            media=JSON_MEDIA,
            status=200 if is_healthy else 503,
        )

    return {"/metrics": metrics, "/json": views, "/healthz": health}


def _send_to(send: Callable[[Iterable[bytes]], None], series: int) -> Callable[[Published], None]:
    from kafkakit.streams.lag.show.metrics_text import datagrams
    from kafkakit.streams.lag.show.service_metrics import all_families

    def publish(seen: Published) -> None:
        send(datagrams(all_families(seen, series)))

    return publish
