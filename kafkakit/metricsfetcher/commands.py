"""`kafkakit metricsfetcher`: `fetch`, `show` and `unit`, and their options.

Names, variables and defaults of options are kafka-kit's if it has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkakit.cli.command_classes import KafkaKitCommand, cli_context, kafka_kit_group, print_version
from kafkakit.cli.common_options import MetricsAccess, MetricsSource
from kafkakit.cli.option_groups import option_words, with_option_groups
from kafkakit.cli.version import add_kafka_kit_commands
from kafkakit.core.cluster_facts import METRICS_PREFIX
from kafkakit.core.errors import UsageError
from kafkakit.core.options import option
from kafkakit.core.storage_documents import Compression
from kafkakit.metricsfetcher.decide import (
    DATADOG_QUERIES,
    FetchResult,
    Queries,
    QuerySet,
    StoreKind,
    StorePlace,
    datadog_queries,
    from_snapshot,
    parse_place,
    prometheus_queries,
)

if TYPE_CHECKING:
    from kafkakit.cli.session import ClusterSession
    from kafkakit.ports.services import SampleQueries, StorageStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(MetricsAccess):
    """Where sizes and free storage come from."""

    source: MetricsSource | None = option(
        None,
        "--source",
        envvar="METRICSFETCHER_SOURCE",
        help="Where values come from. Default: datadog with --api-key-file, METRICSFETCHER_API_KEY or "
        "METRICSFETCHER_APP_KEY, prometheus with --prometheus-url, else brokers.",
    )
    check_cluster: bool = option(
        False,
        "--check-cluster",
        help="Datadog, Prometheus: take only what the cluster has, and report what is missing.",
    )
    partition_size_query: str | None = option(
        None,
        envvar="METRICSFETCHER_PARTITION_SIZE_QUERY",
        metavar="QUERY",
        help="Query for bytes by topic and partition.",
    )
    broker_storage_query: str | None = option(
        None, envvar="METRICSFETCHER_BROKER_STORAGE_QUERY", metavar="QUERY", help="Query for free bytes by broker."
    )
    broker_id_tag: str = option(
        "broker_id",
        envvar="METRICSFETCHER_BROKER_ID_TAG",
        metavar="NAME",
        help="The tag or label with the broker's id.",
    )
    span: int = option(
        3600,
        envvar="METRICSFETCHER_SPAN",
        min=60,
        max=86_400,
        metavar="SECONDS",
        help="Datadog: averages cover this much time.",
    )
    prometheus_url: str | None = option(
        None,
        envvar="METRICSFETCHER_PROMETHEUS_URL",
        metavar="URL",
        help="Prometheus: its address; http://localhost:9090 when not given.",
    )
    query_set: QuerySet = option(
        QuerySet.JMX,
        "--query-set",
        help="Prometheus: the exporter whose metric names the default queries use (kminion has no partition sizes).",
    )

    @property
    def kind(self) -> MetricsSource:
        """The source, as given or as keys and addresses tell; kafka-kit's has keys always, often in variables."""
        from kafkakit.config.read.environment import read_environment

        if self.source is not None:
            return self.source
        keys = [read_environment().get(f"{KEY_PREFIX}_{name}") for name in ("API_KEY", "APP_KEY")]
        if self.api_key_file or self.app_key_file or any(keys):
            return MetricsSource.DATADOG
        return MetricsSource.BROKERS if self.prometheus_url is None else MetricsSource.PROMETHEUS

    @property
    def reads_cluster(self) -> bool:
        """True if the Kafka cluster decides what is written."""
        return self.kind is MetricsSource.BROKERS or self.check_cluster

    @property
    def idle(self) -> tuple[str, ...]:
        """The options that were given and do nothing with this source."""
        given = {
            "--partition-size-query": self.partition_size_query is not None,
            "--broker-storage-query": self.broker_storage_query is not None,
            "--check-cluster": self.check_cluster,
        }
        if self.kind is not MetricsSource.BROKERS:
            given = {}
        given["--prometheus-url"] = self.prometheus_url is not None and self.kind is not MetricsSource.PROMETHEUS
        given["--prometheus-selector"] = bool(self.prometheus_selector) and self.kind is not MetricsSource.PROMETHEUS
        keys = self.api_key_file or self.app_key_file
        given["--api-key-file and --app-key-file"] = keys is not None and self.kind is not MetricsSource.DATADOG
        return tuple(name for name, is_given in given.items() if is_given)

    @property
    def queries(self) -> Queries:
        """The queries as they are sent."""
        usual = DATADOG_QUERIES
        if self.kind is MetricsSource.PROMETHEUS:
            usual = prometheus_queries(self.query_set, self.prometheus_selector)
        asked = Queries(
            sizes=self.partition_size_query or usual.sizes,
            free=self.broker_storage_query or usual.free,
            broker_id_tag=self.broker_id_tag,
            renames_topics=usual.renames_topics,
        )
        return datadog_queries(asked, self.span) if self.kind is MetricsSource.DATADOG else asked

    def collect(self, session: ClusterSession) -> FetchResult:
        """Read the source."""
        from kafkakit.metricsfetcher.act import query_storage

        for name in self.idle:
            session.cli.output.warn(f"{name} has no effect: values come from {self.kind}")
        if self.kind is MetricsSource.BROKERS:
            return from_snapshot(session.admin.snapshot(now=session.clock.now()))
        lacks: list[str] = []
        warn = session.cli.output.warn
        service: SampleQueries
        if self.kind is MetricsSource.DATADOG:
            service = datadog = self.open_datadog(self.span, warn, KEY_PREFIX)
            datadog.check_keys()
        else:
            service = self.open_prometheus(self.prometheus_url or "http://localhost:9090", warn, lacks.append)
        cluster = session.admin.snapshot(now=session.clock.now(), sizes=False) if self.check_cluster else None
        return query_storage(service, self.queries, session.clock, lacks=lacks, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions:
    """Where kafka-kit's znodes are."""

    zk_addr: str | None = option(
        None,
        envvar="METRICSFETCHER_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="ZooKeeper, when it is not the profile's zookeeper.addr, or localhost:2181; a chroot may follow.",
    )
    zk_prefix: str = option(
        METRICS_PREFIX,
        envvar="METRICSFETCHER_ZK_PREFIX",
        help="Parent of the znodes: topicmappr's --zk-metrics-prefix.",
    )

    def open_store(
        self, session: ClusterSession, place: StorePlace, compression: Compression = Compression.GZIP
    ) -> StorageStore:
        """The store at a place."""
        from kafkakit import wiring

        if place.kind is StoreKind.FILE:
            return wiring.open_storage_file(place.name)
        if place.kind is StoreKind.TOPIC:
            return wiring.open_storage_topic(place.name, session.data, session.admin, compression)
        return wiring.open_storage_znodes(session.settings, self.zk_addr, self.zk_prefix, compression)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions(ZooKeeperOptions):
    """Where values are written, and whether incomplete ones are."""

    to: str = option(
        "zookeeper",
        "--to",
        envvar="METRICSFETCHER_TO",
        metavar="PLACE",
        help="Destination: zookeeper, topic:NAME, file:PATH or - (stdout).",
    )
    compression: str = option(
        "gzip",
        envvar="METRICSFETCHER_COMPRESSION",
        metavar="gzip|none|zstd",
        help="Compression of znodes and records; kafka-kit reads gzip and none (true and false mean these).",
    )
    allow_partial: bool = option(
        False, "--allow-partial", help="Write even an incomplete answer, but never an empty one."
    )

    @property
    def place(self) -> StorePlace:
        """Where values go."""
        return parse_place(self.to, "--to")

    @property
    def packing(self) -> Compression:
        """The compression; kafka-kit's true and false are gzip and none."""
        word = {"true": "gzip", "false": "none"}.get(self.compression, self.compression)
        if word not in tuple(Compression):
            raise UsageError(f"--compression {self.compression!r:.40}: choose {', '.join(Compression)}")
        return Compression(word)


class FetchCommand(KafkaKitCommand):
    """Takes kafka-kit's `-compression`, a switch there, without a value too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give a bare `-compression` its value, and parse."""
        bare = ("-compression", "--compression")
        following = ["-", *reversed(args)]
        given = [
            f"{word}=true" if word in bare and after.startswith("-") else word
            for word, after in zip(reversed(args), following, strict=False)
        ]
        return super().parse_args(ctx, given[::-1])


@with_option_groups
def fetch(
    ctx: typer.Context,
    source: SourceOptions,
    store: StoreOptions,
    verbose: Annotated[
        bool, typer.Option("--verbose", envvar="METRICSFETCHER_VERBOSE", help="Also print every value that is written.")
    ] = False,
    version: Annotated[  # printed by its callback
        bool,
        typer.Option("--version", hidden=True, is_eager=True, envvar="METRICSFETCHER_VERSION", callback=print_version),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", envvar="METRICSFETCHER_DRY_RUN", help="Print what would be written, write nothing."),
    ] = False,
) -> int:
    """Collect partition sizes and free storage for topicmappr.

    The brokers themselves are the usual source; Datadog is queried as kafka-kit does, Prometheus with the names of the
    JMX exporter or of Strimzi, or with your queries. In ZooKeeper the values are kafka-kit's two znodes, replaced in
    one transaction; in a topic they are the records of two keys; a file also has the source, the age of each value and
    the smallest copy of each partition. An incomplete answer (a silent broker, a series without a value, a missing
    partition) is reported and not written, unless --allow-partial is given; an empty one is never written.
    --check-cluster leaves out series of topics that were deleted, and finds what has no series at all.

    kafka-kit's flags and METRICSFETCHER_ variables are taken, its keys only from variables or files: with these Datadog
    is the source, and its keys are checked first.

    Exit codes: 0 written, 1 incomplete, empty or refused, 75 a service cannot be reached.

    Examples:

    \b
    kafkakit --profile prod metricsfetcher fetch --zk-addr zk1:2181
    kafkakit --profile prod metricsfetcher fetch --to file:/var/lib/kafkakit/sizes.json
    kafkakit metricsfetcher fetch --source datadog --api-key-file api.key --app-key-file app.key --dry-run
    kafkakit metricsfetcher fetch --source prometheus --prometheus-url http://127.0.0.1:9090 --query-set strimzi
    """
    from contextlib import closing

    from kafkakit.cli.session import finish, open_session
    from kafkakit.metricsfetcher.report import document_report, fetch_report

    cli = cli_context(ctx)
    place, packing = store.place, store.packing
    if place.kind is StoreKind.ZOOKEEPER and source.reads_cluster:
        cli.refuse_default_profile_beside_zookeeper()
    with open_session(cli, read_only=dry_run or place.kind is not StoreKind.TOPIC) as session:
        collected = source.collect(session)
        refusal = collected.refusal(allow_partial=store.allow_partial)
        if place.kind is StoreKind.STDOUT:
            return finish(cli, document_report(collected, refusal))
        written = {}
        if refusal is None and not dry_run:
            with closing(store.open_store(session, place, packing)) as opened:
                written = dict(opened.write(collected.reading))
    return finish(cli, fetch_report(collected, store.to, written, refusal, dry_run=dry_run, verbose=verbose))


@with_option_groups
def show(
    ctx: typer.Context,
    where: ZooKeeperOptions,
    place: Annotated[
        str, typer.Option("--from", metavar="PLACE", help="Source: zookeeper, topic:NAME or file:PATH.")
    ] = "zookeeper",
    largest: Annotated[
        int, typer.Option("--largest", min=0, max=10_000, metavar="N", help="Show this many partitions and brokers.")
    ] = 10,
) -> int:
    """Show what is stored: source, age, numbers, extremes.

    Lists the largest partitions and the brokers with the least free storage.

    Examples:

    \b
    kafkakit metricsfetcher show --zk-addr zk1:2181
    kafkakit metricsfetcher show --from file:/var/lib/kafkakit/sizes.json -o json
    """
    from contextlib import closing

    from kafkakit.cli.session import finish, open_session
    from kafkakit.metricsfetcher.report import stored_report

    cli = cli_context(ctx)
    named = parse_place(place, "--from")
    if named.kind is StoreKind.STDOUT:
        raise UsageError("--from - is not a source", hint="file:- reads stdin")
    with open_session(cli, read_only=True) as session:
        with closing(where.open_store(session, named)) as store:
            reading = store.read()
        now = session.clock.now()
    return finish(cli, stored_report(reading, now, largest))


class UnitFormat(StrEnum):
    """What starts `fetch`."""

    SYSTEMD = "systemd"
    CRON = "cron"


@with_option_groups
def print_unit(
    ctx: typer.Context,
    scheduler: Annotated[UnitFormat, typer.Option("--format", help="Scheduler that starts it.")],
    source: SourceOptions,
    store: StoreOptions,
    every: Annotated[
        int,
        typer.Option(
            "--every",
            min=1,
            max=59,
            metavar="MINUTES",
            help="How often to fetch; topicmappr refuses data older than an hour.",
        ),
    ] = 20,
    program: Annotated[
        str, typer.Option("--program", metavar="PATH", help="The program as the scheduler finds it.")
    ] = "/usr/local/bin/kafkakit",
) -> int:
    """Print a systemd timer or a cron line that runs fetch.

    It holds no secrets: files are named, and variables with keys belong in /etc/kafkakit/metricsfetcher.env, which the
    service reads.

    Examples:

    \b
    kafkakit --profile prod metricsfetcher unit --format systemd --zk-addr zk1:2181
    kafkakit metricsfetcher unit --format cron --source prometheus --to file:/var/lib/kafkakit/sizes.json
    """
    from shlex import split

    from kafkakit.cli.session import finish
    from kafkakit.metricsfetcher.report import unit_report

    cli = cli_context(ctx)
    place, words = store.place, (*option_words(source), *option_words(store))
    called = (program, *split(cli.program)[1:])
    as_cron = scheduler is UnitFormat.CRON
    return finish(cli, unit_report(called, words, place, every, as_cron=as_cron))


GROUP_HELP = "Collect partition sizes and free storage for topicmappr."
KEY_PREFIX = "METRICSFETCHER"
app = kafka_kit_group(GROUP_HELP)
app.command("fetch", cls=FetchCommand)(fetch)
app.command("show", cls=KafkaKitCommand)(show)
app.command("unit", cls=FetchCommand)(print_unit)
add_kafka_kit_commands(app)
