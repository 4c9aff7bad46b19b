"""`kafkakit ui`."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import PodsFile, TagSource
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.options import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkakit.cli.context import CliContext
    from kafkakit.config.security import Security
    from kafkakit.kubernetes.brokers import ClusterPods
    from kafkakit.ports.stores import ControlStore
    from kafkakit.status.act.reading import Reader
    from kafkakit.status.act.service import Sessions, StatusWatch, UiStores
    from kafkakit.status.commands.status import StatusClusters, StatusRequest
    from kafkakit.status.decide.page_parts import PageFrame, UiPage

app = new_group("Serve one read-only page for all of it.")
LISTEN = "127.0.0.1:8787"
TOKEN_LIMIT_BYTES = 4096
POLL_S, CLOSE_S = 0.5, 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UiRequest:
    """What is shown, and where."""

    clusters: str | None = option(
        None, "--clusters", metavar="PROFILE,...", help="Show the clusters of these profiles."
    )
    fleet: Path | None = option(None, "--fleet", metavar="FILE", help="Show the clusters of this file (docs/fleet.md).")
    plans: Path | None = option(None, "--plans", metavar="FOLDER", help="Also show the plan files of this folder.")
    listen: str = option(LISTEN, "--listen", metavar="HOST:PORT", help="Where browsers reach it; port 0 takes any.")
    token_file: Path | None = option(
        None, "--token-file", metavar="FILE", help="Ask browsers for the token in this file; needed beyond this host."
    )
    tls_cert_file: Path | None = option(None, "--tls-cert-file", metavar="FILE", help="Certificate of the server, PEM.")
    tls_key_file: Path | None = option(None, "--tls-key-file", metavar="FILE", help="Private key of the server, PEM.")

    def shown(self) -> StatusRequest:
        """The choice of clusters, as `kafkakit status` has it."""
        from kafkakit.status.commands.status import StatusRequest

        chosen = StatusRequest(clusters=self.clusters, fleet=self.fleet)
        chosen.check()
        return chosen

    def tls(self) -> Security | None:
        """The server's key and certificate; raises `UsageError` for half of them."""
        from kafkakit.core.errors import UsageError
        from kafkakit.wiring import server_tls

        if self.tls_key_file is None or self.tls_cert_file is None:
            if self.tls_key_file or self.tls_cert_file:
                raise UsageError("--tls-cert-file and --tls-key-file belong together")
            return None
        return server_tls(self.tls_key_file, self.tls_cert_file, None)

    def sessions(self) -> Sessions:
        """Who may see pages; raises `UsageError` for an address beyond this host without a token and TLS."""
        from kafkakit.core.errors import UsageError
        from kafkakit.core.rpc import is_loopback, parse_listen
        from kafkakit.status.act.service import Sessions
        from kafkakit.wiring import read_input

        token = ""
        if self.token_file is not None:
            token = read_input(self.token_file, TOKEN_LIMIT_BYTES).decode("utf-8", "replace").strip()
            if len(token) < 16:
                raise UsageError(f"{self.token_file} holds no token of 16 characters", hint="openssl rand -hex 32")
        if not is_loopback(parse_listen(self.listen)[0]) and not (token and self.tls_key_file):
            raise UsageError(
                f"{self.listen} is reached from other hosts: it needs a token and TLS",
                hint="give --token-file, --tls-cert-file and --tls-key-file, or listen on 127.0.0.1",
            )
        return Sessions(token=token)


@app.command("ui", cls=CliCommand)
@with_option_groups
def ui(ctx: typer.Context, request: UiRequest, tags: TagSource, place: PodsFile) -> None:
    """Serve one page for browsers of this host: health, brokers, topics, groups, moves, streams, findings and plans.

    It reads and never changes anything; it shows the commands that would. Topics and brokers have their tags, and are
    found by queries (docs/queries.md). Ctrl-C ends it.

    Examples:

    \b
    kafkakit --profile prod ui
    kafkakit ui --clusters prod,staging --plans plans/
    kafkakit --profile prod ui --pods pods.json
    """
    from kafkakit.adapters.host import notify_service
    from kafkakit.core.errors import UsageError
    from kafkakit.core.rpc import ServiceProbes
    from kafkakit.ports.acting import repeat_every
    from kafkakit.status.act.service import PlanFiles, UiLook, UiService
    from kafkakit.wiring import open_page_server, read_input, system_clock

    cli = cli_context(ctx)
    if request.plans is not None and not request.plans.is_dir():
        raise UsageError(f"{request.plans} is not a folder", hint="give the folder where plan files are")
    if place.pods is not None and request.shown().is_fleet:
        raise UsageError("--pods is about one cluster", hint="leave out --clusters and --fleet")
    tls, sessions, pods = request.tls(), request.sessions(), place.source()
    cli.begin_service()
    with ExitStack() as stack:
        shown = request.shown()
        watches = [_watch(cli, stack, choice, shown, tags, pods) for choice in shown.chosen(cli)]
        plans = PlanFiles(request.plans, read_input)
        service = UiService(watches, plans, UiLook(render=render, asset=asset), sessions, is_secure=tls is not None)
        clock = system_clock()
        probes = ServiceProbes(notify_service, clock.monotonic)
        server = stack.enter_context(closing(open_page_server(request.listen, service.answer, tls=tls, probes=probes)))
        for watch in watches:
            watch.start()
            stack.callback(watch.close, CLOSE_S)
        service.prepare()
        scheme = "http" if tls is None else "https"
        cli.output.say(f"serving {scheme}://{server.address}/")
        probes.notify("READY=1")
        for _ in repeat_every(clock, POLL_S):
            server.require_listening()
            probes.notify("WATCHDOG=1")


def _watch(
    cli: CliContext,
    stack: ExitStack,
    choice: StatusClusters,
    shown: StatusRequest,
    tags: TagSource,
    pods: Callable[[], ClusterPods] | None,
) -> StatusWatch:
    from kafkakit.core.errors import KafkakitError
    from kafkakit.status.act.reading import HistoryFile, StatusReader, UnreadableCluster, unreadable_sources
    from kafkakit.status.act.service import LiveCluster, StatusWatch
    from kafkakit.status.commands.status import cluster_sources
    from kafkakit.wiring import read_input, system_clock, write_file

    clock, history = system_clock(), HistoryFile(cli.folders.state / "status", read_input, write_file)
    try:
        sources = cluster_sources(cli, stack, choice, shown, pods)
        reader: Reader = StatusReader(sources)
    except KafkakitError as error:
        if not shown.bears(error):
            raise
        sources = unreadable_sources(choice.name, choice.program, error, clock)
        reader = UnreadableCluster(choice.name, error, clock)
    cluster = LiveCluster(reader, history, sources, _stores(choice, tags))
    return StatusWatch(choice.name, cluster, clock)


def _stores(choice: StatusClusters, tags: TagSource) -> UiStores:
    from kafkakit.status.act.service import UiStores
    from kafkakit.wiring import open_control_view, open_znodes

    def open_control() -> ControlStore:
        return open_control_view(choice.settings())

    if prefix := tags.zk_tags_prefix.strip("/"):
        return UiStores(
            open_control=open_control,
            open_tags=lambda: open_znodes(choice.settings()),
            tags_root=lambda cluster_id: prefix,
        )
    return UiStores(open_control=open_control, open_tags=open_control)


def render(page: UiPage, frame: PageFrame) -> bytes:
    """The HTML of a page."""
    from kafkakit.report.pages import html_page

    return html_page("ui.html", title=page.title, page=page, frame=frame)


def asset(name: str) -> str:
    """A style or script by its name."""
    from kafkakit.report.pages import package_text

    return package_text("base.css") + package_text(name) if name == "ui.css" else package_text(name)
