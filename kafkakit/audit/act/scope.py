"""Reads of a store what choosing clusters, topics and brokers needs."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from kafkakit.audit.decide.scope import (
    AuditScope,
    Rows,
    ScopeRequest,
    chosen_brokers,
    chosen_clusters,
    chosen_topics,
    tables_for_brokers,
    tables_for_topics,
)
from kafkakit.core.fleet_tables import TABLES
from kafkakit.ports.stores import RunStore


def read_scope(wanted: ScopeRequest, store: RunStore, snapshot_date: str, clusters: Sequence[str]) -> AuditScope:
    """The names that a scope stands for on a date; `clusters` are those that were collected whole.

    Reads the tables that the queries look at, and nothing where none is given. Raises `UsageError` for what names
    nothing, and for queries over tags that were not collected.
    """

    def read(kind: str, cluster: str) -> Rows:
        return store.columns(
            f"{kind}/snapshot_date={snapshot_date}/cluster={quote(cluster, safe='')}", only=TABLES[kind].names
        )

    def tables(kinds: Sequence[str]) -> Mapping[str, Mapping[str, Rows]]:
        return {cluster: {kind: read(kind, cluster) for kind in kinds} for cluster in clusters}

    named = None
    if wanted.clusters is not None:
        named = chosen_clusters(wanted.clusters, {cluster: read("clusters", cluster) for cluster in clusters})
        clusters = named
    topics = wanted.topics
    brokers = wanted.brokers
    return AuditScope(
        clusters=named,
        topics=None if topics is None else chosen_topics(topics, tables(tables_for_topics(topics))),
        brokers=None if brokers is None else chosen_brokers(brokers, tables(tables_for_brokers(brokers))),
    )
