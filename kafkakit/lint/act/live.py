"""A live cluster as pieces for lint: its snapshot, and what was set on brokers and topics, with the layer."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from kafkakit.core.cluster_facts import ConfigLayer, LayeredValue
from kafkakit.core.errors import UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, TagSet
from kafkakit.core.query import TOPIC_KEYS, tag_keys, topic_table, topics_where, why_none
from kafkakit.core.query_text import parse_query
from kafkakit.core.selection import parse_patterns, query_of, select_topics
from kafkakit.lint.decide.kinds.values import without_secret
from kafkakit.lint.decide.pieces import BrokerPiece, ClusterPiece, Pieces, TopicPiece
from kafkakit.lint.decide.seen_cluster import seen_broker, seen_partitions, seen_replication
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.rules.effective import Declared, Source
from kafkakit.rules.values import HIDDEN

_SOURCES = {
    ConfigLayer.DYNAMIC_BROKER: Source.DYNAMIC_BROKER,
    ConfigLayer.DYNAMIC_DEFAULT: Source.DYNAMIC_DEFAULT,
    ConfigLayer.STATIC: Source.STATIC,
}


def read_live(
    admin: ClusterAdmin, name: str | None, now: datetime, topics: str | None, read_tags: Callable[[], TagSet]
) -> Pieces:
    """Read a cluster with three kinds of request; 200,000 partitions take some seconds.

    `topics` are the names or the query of those that are linted (None: all); tags are read where it looks at some.
    Raises `KafkakitError` when the cluster cannot be reached or a right is missing, `UsageError` where none matches.
    """
    snapshot = admin.snapshot(now=now)
    if topics is not None:
        snapshot = with_topics(snapshot, topics, read_tags)
    alive = [broker.id for broker in snapshot.brokers if broker.is_alive]
    return live_pieces(snapshot, admin.broker_configs(alive), name)


def with_topics(snapshot: ClusterSnapshot, wanted: str, read_tags: Callable[[], TagSet]) -> ClusterSnapshot:
    """The cluster without the topics that are not meant; tags are read where a query needs them.

    Raises `UsageError` where none matches.
    """
    query = query_of(wanted)
    if query is None:
        chosen = set(select_topics([t.name for t in snapshot.topics], parse_patterns(wanted)).selected)
    else:
        node = parse_query(query)
        if tag_keys(node, TOPIC_KEYS):
            snapshot = replace(snapshot, tags=read_tags())
        chosen = set(topics_where(snapshot, node))
        if not chosen:
            error = UsageError(f"no topic matches {wanted!r:.200}")
            error.lines = why_none(node, topic_table(snapshot))
            raise error
    return replace(snapshot, topics=tuple(t for t in snapshot.topics if t.name in chosen))


def live_pieces(
    snapshot: ClusterSnapshot, configs: Mapping[int, Mapping[str, LayeredValue]], name: str | None
) -> Pieces:
    """What was read, as pieces of the cluster `name`."""
    defaults = {
        key: _declared(key, value)
        for values in configs.values()
        for key, value in values.items()
        if value.layer is ConfigLayer.DYNAMIC_DEFAULT
    }
    return Pieces(
        clusters=(
            ClusterPiece(
                place=None,
                name=name,
                version=snapshot.kafka_version,
                dynamic_default=defaults,
                moves_running=bool(snapshot.reassignments),
                is_live=True,
            ),
        ),
        brokers=tuple(_broker(broker, configs.get(broker.id), name) for broker in snapshot.brokers),
        topics=tuple(
            TopicPiece(
                name=topic.name,
                place=None,
                cluster=name,
                configs={key: Declared(value, Source.TOPIC) for key, value in topic.configs.items()},
                partitions=len(topic.partitions),
                replication_factor=seen_replication(topic),
                partition_facts=seen_partitions(topic),
                is_declared=False,
            )
            for topic in snapshot.topics
        ),
    )


def _broker(broker: Broker, values: Mapping[str, LayeredValue] | None, cluster: str | None) -> BrokerPiece:
    seen = seen_broker(broker, cluster, None)
    if values is None:
        return seen
    layers: dict[ConfigLayer, dict[str, Declared]] = {layer: {} for layer in ConfigLayer}
    for key, value in values.items():
        layers[value.layer][key] = _declared(key, value)
    return replace(seen, static=layers[ConfigLayer.STATIC], dynamic=layers[ConfigLayer.DYNAMIC_BROKER], is_known=True)


def _declared(key: str, value: LayeredValue) -> Declared:
    text = HIDDEN if value.value is None else without_secret(key, value.value)
    return Declared(text, _SOURCES[value.layer])
