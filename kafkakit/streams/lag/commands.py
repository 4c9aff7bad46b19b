"""`kafkakit streams lag`: how far consumer groups are behind, in records and in time.

`once` and `watch` print views, `check` holds lag against limits (each as a warning and as critical), `serve` publishes
it, and `share-groups` shows where share groups stand. The groups of options stand here with the values that they stand
for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkakit.cli.command_classes import CliCommand, cli_context, new_group
from kafkakit.cli.common_options import NO_TAGS, TagSource
from kafkakit.cli.completion import TOPIC_CHOICE, complete_group_names, complete_topic_names
from kafkakit.cli.option_groups import with_option_groups
from kafkakit.core.options import option
from kafkakit.core.selection import parse_patterns, query_of
from kafkakit.streams.lag.decide.limits import LIMIT_KEYS, JudgedBound, LimitRules, option_of, parse_thresholds
from kafkakit.streams.lag.decide.views import RowFilter, ViewRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkakit.cli.context import CliContext
    from kafkakit.config.read.settings import Settings
    from kafkakit.core.errors import KafkakitError
    from kafkakit.report.report import Report
    from kafkakit.streams.lag.act.monitor import MonitorContext, MonitoredCluster, MonitorPace
    from kafkakit.streams.lag.decide.monitors import MonitorsLook


app = new_group("Measure how far groups are behind, in records and time.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LagClusters:
    """The clusters to measure, and how far clocks may differ."""

    clusters: str | None = option(
        None,
        "--clusters",
        metavar="PROFILE,...",
        help="Read the clusters of these profiles; the current profile when not given.",
    )
    skew: str = option(
        "1s",
        "--skew",
        metavar="DURATION",
        help="How far the clocks of brokers, producers and this machine may differ; widens time lag intervals.",
    )

    def monitored(self, cli: CliContext) -> tuple[MonitoredCluster, ...]:
        """The clusters with their names; nothing is connected yet. `UsageError` for one that cannot be connected to."""
        from kafkakit.wiring import load_clients

        load_clients()  # each cluster has threads that use them
        return tuple(_monitored_cluster(name, settings) for name, settings in self._settings(cli))

    def failure(self, look: MonitorsLook) -> KafkakitError | None:
        """The error for clusters that are not known."""
        return look.failure_of(are_profiles=self.clusters is not None)

    def topic_tags(self, cli: CliContext, source: TagSource) -> dict[str, Mapping[str, Mapping[str, str]]]:
        """The tags of topics, from the control store of each profile or the znodes of kafka-kit's registry."""
        from kafkakit.cli.session import open_session

        found = {}
        for name, settings in self._settings(cli):
            with open_session(cli, read_only=True, settings=settings) as session:
                found[name] = source.read(session).topics
        return found

    def context(self, cli: CliContext, pace: MonitorPace | None = None) -> MonitorContext:
        """What the watchers of the clusters share."""
        from kafkakit.core.quantities import parse_duration_or_zero
        from kafkakit.streams.lag.act.monitor import MonitorContext, StateFiles
        from kafkakit.streams.lag.decide.measure.table import MeasureRules
        from kafkakit.wiring import read_input, system_clock, write_file

        def read(path: Path, limit_bytes: int) -> bytes:
            return read_input(path, limit_bytes)

        return MonitorContext(
            clock=system_clock(),
            warn=cli.output.warn,
            states=StateFiles(cli.settings.state_dir / "lag", read, write_file),
            pace=pace,
            rules=MeasureRules(skew_ms=round(parse_duration_or_zero(self.skew, "--skew") * 1000)),
        )

    def _settings(self, cli: CliContext) -> tuple[tuple[str, Settings], ...]:
        from kafkakit.core.errors import UsageError

        if self.clusters is None:
            return ((cli.settings.profile or cli.settings.bootstrap_servers or "cluster", cli.settings),)
        names = [name.strip() for name in self.clusters.split(",") if name.strip()]
        if not names:
            raise UsageError("--clusters names no profile", hint="their names: kafkakit profile list")
        if len(names) != len(set(names)):
            raise UsageError("--clusters names a profile twice")
        return tuple((name, cli.load_settings(name)) for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice:
    """The groups and topics to measure."""

    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...",
            help="Only these groups; names or globs in quotes ('orders-*').",
            autocompletion=complete_group_names,
            show_default=False,
        ),
    ] = None
    group: list[str] | None = option(
        None,
        "--group",
        metavar="GLOB",
        help="Only groups whose name matches, or 'where QUERY'. Repeatable.",
        autocompletion=complete_group_names,
    )
    topics: str | None = option(None, "--topics", **TOPIC_CHOICE, help="Only these topics.")
    topic: list[str] | None = option(
        None,
        "--topic",
        metavar="GLOB",
        help="Only topics whose name matches, or 'where QUERY'. Repeatable.",
        autocompletion=complete_topic_names,
    )
    internal: bool = option(False, "--internal", help="Also show topics whose names begin with __.")
    tags: TagSource = NO_TAGS

    def filter(self, cli: CliContext, which: LagClusters) -> RowFilter:
        """The rows that match; a topic glob may name internal topics. Reads tags where a query looks at some."""
        patterns = parse_patterns(self.topics or "")
        queries = tuple(pattern for pattern in patterns if query_of(pattern) is not None)
        chosen = RowFilter(
            groups=(*(self.groups or []), *(self.group or [])),
            topics=(*(self.topic or []), *queries),
            patterns=tuple(pattern for pattern in patterns if pattern not in queries),
            internal=self.internal or bool(self.topic or patterns),
        )
        return replace(chosen, topic_tags=which.topic_tags(cli, self.tags)) if chosen.tags_needed else chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitLimit:
    """How long a command waits for what it measures."""

    wait: str = option(
        "60s",
        "--wait",
        metavar="DURATION",
        help="Stop waiting for unknown lag after this long; a warning names what is missing.",
    )

    @property
    def seconds(self) -> float:
        """The limit in seconds."""
        from kafkakit.core.quantities import parse_duration

        return parse_duration(self.wait, "--wait")


@app.command("once", cls=CliCommand, short_help="Show the lag of all groups now.")
@with_option_groups
def show_once(
    ctx: typer.Context,
    which: LagClusters,
    layout: ViewRequest,
    rows: RowChoice,
    limit: WaitLimit,
    members: Annotated[
        bool, typer.Option("--members", help="Show who reads: the owner of each partition, or how many members.")
    ] = False,
) -> int:
    """Show the lag of all groups now, with an interval that contains the time lag, and its source.

    Reads the cluster's commits from the offsets topic (from where the last run stopped), samples the log ends
    twice, and reads the next record of each lagging group. Nothing is written to the cluster, and no group is
    joined. Time lag is the age of the oldest unprocessed record, live lag the age of the newest processed one. With
    --members the coordinators of the groups shown describe them, which needs DESCRIBE on each; -o json lists all
    members with their partitions.

    Examples:

    \b
    kafkakit --profile prod streams lag once
    kafkakit --profile prod streams lag once 'orders-*' --by partition --members
    kafkakit streams lag once --clusters prod-a,prod-b --by stream -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.streams.lag.act.fleet import ONCE_PACE, look_once, read_members, require_named, running_fleet
    from kafkakit.streams.lag.decide.views import groups_by_cluster, require_groups
    from kafkakit.streams.lag.report import view_report

    cli, wait_s = cli_context(ctx), limit.seconds
    request = replace(layout, rows=rows.filter(cli, which))
    if members:
        require_groups(request.level)
    clusters = which.monitored(cli)
    with running_fleet(clusters, which.context(cli, ONCE_PACE)) as fleet:
        look = look_once(fleet, cli.output, wait_s=wait_s)
    if len(look.conditions) == 1:
        cli.cluster_id = look.conditions[0].cluster_id
    require_named(look, request.rows, clusters)
    view = request.of(look.tables)
    open_groups = {cluster.name: cluster.open_groups for cluster in clusters}
    readers = read_members(open_groups, groups_by_cluster(view)) if members else None
    return finish(cli, view_report("streams lag once", look, view, which.failure(look), readers))


@app.command("watch", cls=CliCommand, short_help="Watch the lag of groups.")
@with_option_groups
def watch(
    ctx: typer.Context,
    which: LagClusters,
    layout: ViewRequest,
    rows: RowChoice,
    limit: WaitLimit,
    interval: Annotated[str, typer.Option("--interval", metavar="DURATION", help="Time between two refreshes.")] = "2s",
    count: Annotated[
        int | None,
        typer.Option("--count", min=1, metavar="N", help="End after this many refreshes.", show_default=False),
    ] = None,
) -> int:
    """Watch the lag of groups: a table that refreshes in place, or a line for each change of a status.

    A terminal gets the table, any other output gets lines. Ctrl-C ends it. With --count the last state is the
    result.

    Examples:

    \b
    kafkakit --profile prod streams lag watch
    kafkakit --profile prod streams lag watch 'orders-*' --by partition --interval 5s
    kafkakit streams lag watch --clusters prod-a,prod-b --count 10 -o json
    """
    from kafkakit.cli.session import finish
    from kafkakit.core.quantities import parse_duration
    from kafkakit.streams.lag.act.fleet import LookDisplay, look_once, require_named, running_fleet, watch_looks
    from kafkakit.streams.lag.report import view_report

    cli = cli_context(ctx)
    request = replace(layout, rows=rows.filter(cli, which))
    wait_s, interval_s = limit.seconds, parse_duration(interval, "--interval")
    clusters = which.monitored(cli)
    with running_fleet(clusters, which.context(cli)) as fleet:
        require_named(look_once(fleet, cli.output, wait_s=wait_s, rounds=1), request.rows, clusters)
        with cli.output.screen() as screen:
            display = LookDisplay(screen, request, in_place=cli.output.animate)
            look = watch_looks(fleet, display.show, interval_s=interval_s, count=count)
    return finish(cli, view_report("streams lag watch", look, request.of(look.tables)))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckWaitLimit(WaitLimit):
    """The limit of `lag check`, which is shorter than the time limits of monitoring systems."""

    wait: str = option(
        "30s",
        "--wait",
        metavar="DURATION",
        help="Stop waiting for unknown lag after this long; a warning names what is missing.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of lag, of time, of what retention leaves, and the statuses."""

    warn_lag: str | None = option(
        None,
        "--warn-lag",
        metavar="N",
        help="Warn above this many records of a group in a topic (10k, 1.5M).",
    )
    crit_lag: str | None = option(
        None, "--crit-lag", metavar="N", help="Critical above this many records of a group in a topic."
    )
    warn_time: str | None = option(
        None, "--warn-time", metavar="DURATION", help="Warn above this time lag of a partition."
    )
    crit_time: str | None = option(
        None, "--crit-time", metavar="DURATION", help="Critical above this time lag of a partition."
    )
    warn_retention: str | None = option(
        None,
        "--warn-retention",
        metavar="DURATION",
        help="Warn when pending records will be deleted within this time.",
    )
    crit_retention: str | None = option(
        None,
        "--crit-retention",
        metavar="DURATION",
        help="Critical when pending records will be deleted within this time.",
    )
    warn_status: str = option(
        "stalled,rewind,held_back,no_commit",
        "--warn-status",
        metavar="STATUS,...",
        help="Statuses to warn of; none: no status.",
    )
    crit_status: str = option(
        "stopped,lost,ahead", "--crit-status", metavar="STATUS,...", help="Statuses that are critical; none: no status."
    )
    judge: JudgedBound = option(
        JudgedBound.LOW, "--judge", help="Which end of a time lag's interval is compared; low gives no false alarms."
    )

    limits: Path | None = option(
        None,
        "--limits",
        metavar="FILE",
        help="YAML file of rules with limits by group, topic or owner; options are for what no rule matches.",
    )

    def rules(self) -> LimitRules:
        """The limits as numbers; `UsageError` names the option, or the line of the file, that cannot be read."""
        from kafkakit.streams.lag.decide.monitors import LIMIT_BYTES, read_limit_rules
        from kafkakit.wiring import read_input

        words = {key: getattr(self, key) for key in LIMIT_KEYS}
        default = parse_thresholds(words, self.judge, option_of)
        if self.limits is None:
            return LimitRules(default=default)
        return read_limit_rules(read_input(self.limits, LIMIT_BYTES), str(self.limits), words, self.judge)


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceOptions:
    """Whether lag that our own moves explain is silenced, and for how long."""

    silence_own_moves: bool = option(
        False,
        "--silence-own-moves",
        help="Leave out slow reading of topics that an unfinished run of this host moves; it is counted.",
    )
    silence_limit: str = option(
        "4h", "--silence-limit", metavar="DURATION", help="Silence for no longer after a run began."
    )

    @property
    def limit_s(self) -> float:
        """The limit in seconds."""
        from kafkakit.core.quantities import parse_duration

        return parse_duration(self.silence_limit, "--silence-limit")

    def moved(self, cli: CliContext, look: MonitorsLook) -> dict[tuple[str, str], str]:
        """The runs that move topics, by cluster and topic; none where nothing is to be silenced."""
        from kafkakit.streams.lag.act.fleet import moves_of_look
        from kafkakit.wiring import system_clock

        if not self.silence_own_moves:
            return {}
        return moves_of_look(look, cli.settings.state_dir, system_clock().now(), self.limit_s, cli.output.warn)


@with_option_groups
def check(
    ctx: typer.Context,
    which: LagClusters,
    rows: RowChoice,
    limits: LimitOptions,
    limit: CheckWaitLimit,
    silence: SilenceOptions,
    nagios: Annotated[
        bool, typer.Option("--nagios", help="Exit as monitoring plugins do: 0 ok, 1 warning, 2 critical, 3 unknown.")
    ] = False,
) -> int:
    """Check the lag of groups against thresholds, for cron and monitoring: one line with performance data.

    Exit 0 when all is within limits, 1 on a warning or worse, 2 for a named group or topic that does not exist, 75 when
    the lag is not known (for example, a cluster does not answer). With --nagios the codes are the ones that monitoring
    plugins use.

    The --limits file has owners (each with the globs of its groups) and rules; the first rule that matches applies. The
    keys of a rule are group and topic (globs), owner, and the limits as the options spell them, with _ for -; a limit
    that it does not set comes from the command line. --silence-own-moves silences only lag, time lag and the statuses
    warning and stalled, and ends with the run.

    Examples:

    \b
    kafkakit --profile prod streams lag check --crit-time 10m --warn-time 2m
    kafkakit --profile prod streams lag check 'orders-*' --crit-lag 1M --crit-retention 6h --nagios
    kafkakit streams lag check --clusters prod-a,prod-b --crit-time 10m -o json
    kafkakit --profile prod streams lag check --limits limits.yaml --silence-own-moves --silence-limit 2h
    """
    from kafkakit.cli.session import finish
    from kafkakit.streams.lag.act.fleet import ONCE_PACE, look_once, require_named, running_fleet
    from kafkakit.streams.lag.decide.limits import check_lag
    from kafkakit.streams.lag.report import check_report, report_or_unknown

    cli = cli_context(ctx)

    def checked() -> Report:
        limit_rules, wait_s, _ = limits.rules(), limit.seconds, silence.limit_s
        chosen = rows.filter(cli, which)
        clusters = which.monitored(cli)
        with running_fleet(clusters, which.context(cli, ONCE_PACE)) as fleet:
            look = look_once(fleet, cli.output, wait_s=wait_s)
        require_named(look, chosen, clusters)
        found = check_lag(chosen.of(look.tables), limit_rules, silence.moved(cli, look))
        return check_report(found, look, nagios=nagios)

    return finish(cli, report_or_unknown(checked) if nagios else checked())


DEFAULT_LISTEN = "127.0.0.1:9105"


@with_option_groups
def serve(
    ctx: typer.Context,
    which: LagClusters,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Address of the HTTP server; it is neither encrypted nor authenticated.",
        ),
    ] = DEFAULT_LISTEN,
    http_name: Annotated[
        list[str] | None,
        typer.Option(
            "--http-name",
            metavar="HOST",
            help="Another name under which this host's --listen address is reached, such as a proxy's. Repeatable.",
            show_default=False,
        ),
    ] = None,
    dogstatsd: Annotated[
        str | None,
        typer.Option(
            "--dogstatsd",
            metavar="HOST:PORT",
            help="Also send the metrics to a Datadog agent every 10 s.",
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
            help="Also publish series for the partitions of matching groups (kafkakit_lag_partition_...). Repeatable.",
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

    from kafkakit.adapters.host import life_of, notify_service, resident_bytes, this_holder
    from kafkakit.adapters.metrics_services import DogStatsd
    from kafkakit.cli.session import open_session
    from kafkakit.core.quantities import count_of
    from kafkakit.core.rpc import ServiceProbes, answer_pages, is_loopback, parse_listen
    from kafkakit.streams.lag.act.fleet import ClusterShares, Fleet, LagService, run_service
    from kafkakit.streams.lag.decide.monitors import instance_name
    from kafkakit.streams.lag.service_report import published_datagrams, service_pages
    from kafkakit.wiring import open_page_server

    cli = cli_context(ctx)
    cli.begin_service()
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
        probes = ServiceProbes(notify_service, session.clock.monotonic, service.is_healthy)
        opened = open_page_server(listen, answer_pages(pages), http_name or (), probes=probes)
        server = stack.enter_context(closing(opened))
        if not is_loopback(host):
            cli.output.warn(
                f"{server.address} can be reached from other machines, without authentication or encryption"
            )
        shown = count_of(len(clusters), "cluster")
        cli.output.say(f"serving http://{server.address}/metrics, /json and /healthz for {shown}")
        run_service(
            service,
            session.clock,
            report=cli.output.say,
            notify=probes.notify,
            memory_bytes=resident_bytes,
            require_listening=server.require_listening,
            send=None
            if sender is None
            else lambda published: sender.send(published_datagrams(published, series, partition_groups)),
        )


def share_groups(
    ctx: typer.Context,
    groups: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[GROUP]...", help="Only these groups; names or globs in quotes ('orders-*').", show_default=False
        ),
    ] = None,
) -> None:
    """Show the lag of share groups, as their coordinators know it.

    Members of a share group take single records, and brokers keep what each did; nothing is committed to the offsets
    topic, so the other commands do not show these groups. Lag counts records that are not done. Time lag is not known.

    Examples:

    \b
    kafkakit --profile prod streams lag share-groups
    kafkakit --profile prod streams lag share-groups 'orders-*' -o json
    """
    from kafkakit.cli.session import finish, open_session
    from kafkakit.core.cluster_facts import GroupType
    from kafkakit.streams.lag.decide.views import matches, require_share_groups
    from kafkakit.streams.lag.report import share_group_report

    cli = cli_context(ctx)
    with open_session(cli, read_only=True) as session:
        cli.cluster_id = session.cluster_id
        every = session.groups.groups()
        require_share_groups(groups or (), {g.group: g.type for g in every})
        listed = [g for g in every if g.type is GroupType.SHARE and matches(g.group, groups or ())]
        found = session.groups.share_offsets([g.group for g in listed])
    finish(cli, share_group_report({g.group: g.state for g in listed}, found))


def _monitored_cluster(name: str, settings: Settings) -> MonitoredCluster:
    from functools import partial

    from kafkakit.streams.lag.act.monitor import MonitoredCluster
    from kafkakit.streams.lag.act.reading import read_topic_facts
    from kafkakit.wiring import open_admin, open_groups, open_log

    open_log(settings).close()  # settings that cannot work are reported before anything runs
    return MonitoredCluster(
        name=name,
        open_reader=partial(open_log, settings),
        facts_of=partial(read_topic_facts, partial(open_admin, settings, read_only=True, check_pin=False)),
        open_groups=partial(open_groups, settings, read_only=True),
        pinned_id=settings.cluster_id,
    )


app.command("serve", cls=CliCommand, short_help="Serve the lag of all groups as metrics and JSON.")(serve)
app.command("check", cls=CliCommand, short_help="Check lag against thresholds, for cron and monitoring.")(check)
app.command("share-groups", cls=CliCommand, short_help="Show the lag of share groups.")(share_groups)
