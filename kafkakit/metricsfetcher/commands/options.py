"""The options of `kafkakit metricsfetcher`; names, variables and defaults are kafka-kit's where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.cli.metrics_options import MetricsAccess, MetricsSource
from kafkakit.cli.option_groups import option
from kafkakit.core.errors import UsageError
from kafkakit.core.metrics_znodes import Compression
from kafkakit.metricsfetcher.decide import (
    DATADOG_QUERIES,
    Collected,
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
    from kafkakit.ports.metrics import SampleQueries, StorageStore


class UnitFormat(StrEnum):
    """What starts `fetch`."""

    SYSTEMD = "systemd"
    CRON = "cron"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions(MetricsAccess):
    """Where sizes and free storage come from."""

    source: MetricsSource = option(
        MetricsSource.BROKERS, "--source", envvar="METRICSFETCHER_SOURCE", help="Where values come from."
    )
    check_cluster: bool = option(
        False, "--check-cluster", help="Datadog, Prometheus: take what the cluster has, and name what of it is missing."
    )
    partition_size_query: str | None = option(
        None, envvar="METRICSFETCHER_PARTITION_SIZE_QUERY", metavar="QUERY", help="Bytes by topic and partition."
    )
    broker_storage_query: str | None = option(
        None, envvar="METRICSFETCHER_BROKER_STORAGE_QUERY", metavar="QUERY", help="Free bytes by broker."
    )
    broker_id_tag: str = option(
        "broker_id", envvar="METRICSFETCHER_BROKER_ID_TAG", metavar="NAME", help="The tag or label of a broker."
    )
    span: int = option(
        3600,
        envvar="METRICSFETCHER_SPAN",
        min=60,
        max=86_400,
        metavar="SECONDS",
        help="Datadog: averages are over this.",
    )
    prometheus_url: str = option(
        "http://localhost:9090", envvar="METRICSFETCHER_PROMETHEUS_URL", metavar="URL", help="Prometheus: its address."
    )
    query_set: QuerySet = option(
        QuerySet.JMX,
        "--query-set",
        help="Prometheus: whose names the usual queries have (kminion has no sizes of partitions).",
    )

    @property
    def queries(self) -> Queries:
        """The queries as they are sent."""
        usual = DATADOG_QUERIES
        if self.source is MetricsSource.PROMETHEUS:
            usual = prometheus_queries(self.query_set, self.prometheus_selector)
        asked = Queries(
            sizes=self.partition_size_query or usual.sizes,
            free=self.broker_storage_query or usual.free,
            broker_id_tag=self.broker_id_tag,
            renames_topics=usual.renames_topics,
        )
        return datadog_queries(asked, self.span) if self.source is MetricsSource.DATADOG else asked

    def collect(self, session: ClusterSession) -> Collected:
        """Read the source."""
        from kafkakit.metricsfetcher.act import query_storage

        if self.source is MetricsSource.BROKERS:
            return from_snapshot(session.admin.snapshot(now=session.clock.now()))
        lacks: list[str] = []
        warn = session.cli.output.warn
        service: SampleQueries
        if self.source is MetricsSource.DATADOG:
            service = self.open_datadog(self.span, warn, "METRICSFETCHER")
        else:
            service = self.open_prometheus(self.prometheus_url, warn, lacks.append)
        cluster = session.admin.snapshot(now=session.clock.now(), sizes=False) if self.check_cluster else None
        return query_storage(service, self.queries, session.clock, lacks=lacks, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperOptions:
    """Where kafka-kit's znodes are."""

    zk_addr: str = option(
        "localhost:2181",
        envvar="METRICSFETCHER_ZK_ADDR",
        metavar="HOST:PORT,...",
        help="ZooKeeper; a chroot may follow.",
    )
    zk_prefix: str = option(
        "topicmappr", envvar="METRICSFETCHER_ZK_PREFIX", help="Parent of the znodes: topicmappr's --zk-metrics-prefix."
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
        return wiring.open_storage_znodes(self.zk_addr, self.zk_prefix, compression)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions(ZooKeeperOptions):
    """Where values are written, and whether incomplete ones are."""

    to: str = option(
        "zookeeper",
        "--to",
        envvar="METRICSFETCHER_TO",
        metavar="PLACE",
        help="zookeeper, topic:NAME, file:PATH or - (stdout).",
    )
    compression: str = option(
        "gzip",
        envvar="METRICSFETCHER_COMPRESSION",
        metavar="gzip|none|zstd",
        help="Of znodes and records; kafka-kit reads gzip and none.",
    )
    allow_partial: bool = option(
        False, "--allow-partial", help="Write an incomplete answer, too, but never an empty one."
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
