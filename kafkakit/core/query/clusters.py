"""Brokers and topics of a snapshot as tables for queries: attributes that every one has, and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Topic
from kafkakit.core.query.columns import (
    ADDRESSED,
    NAMED,
    Column,
    Makers,
    ObjectTable,
    flag_column,
    number_column,
    object_table,
    tag_keys,
    text_column,
    unknown_keys,
)
from kafkakit.core.query.evaluate import explain, names_matching
from kafkakit.core.query.nodes import Node
from kafkakit.core.tags import TagSet

_SHOWN = 5
_NO_TAGS: Mapping[str, str] = {}

_TOPICS: Makers = {
    **NAMED,
    "partitions": lambda topics: number_column([len(t.partitions) for t in topics]),
    "replication": lambda topics: number_column(
        [max((len(p.replicas) for p in t.partitions), default=0) for t in topics]
    ),
    "bytes": lambda topics: number_column([_topic_bytes(t) for t in topics]),
    "under_replicated": lambda topics: flag_column([_under_replicated(t) for t in topics]),
}
_BROKERS: Makers = {
    **ADDRESSED,
    "state": lambda brokers: text_column([str(b.state) for b in brokers]),
    "is_alive": lambda brokers: flag_column([b.is_alive for b in brokers]),
    "free_bytes": lambda brokers: number_column([_dirs(b, "usable_bytes", b.storage_free_bytes) for b in brokers]),
    "total_bytes": lambda brokers: number_column([_dirs(b, "total_bytes", None) for b in brokers]),
}
TOPIC_KEYS = frozenset(_TOPICS)
BROKER_KEYS = frozenset({*_BROKERS, "replicas", "leaders"})


def topic_table(snapshot: ClusterSnapshot) -> ObjectTable:
    """The topics; `config.NAME` are settings that differ from the broker's."""
    tags, names = (snapshot.tags or TagSet()).topics, [t.name for t in snapshot.topics]
    return object_table(names, snapshot.topics, _TOPICS, lambda t: tags.get(t.name, _NO_TAGS), lambda t: t.configs)


def broker_table(snapshot: ClusterSnapshot) -> ObjectTable:
    """The brokers that are registered; names are their ids."""
    brokers = [b for b in snapshot.brokers if b.state != "missing"]
    tags = (snapshot.tags or TagSet()).brokers

    def held(most: int | None) -> Column:
        counts = Counter(b for _, p in snapshot.partitions() for b in p.replicas[:most])
        return number_column([counts[b.id] for b in brokers])

    own: Makers = {**_BROKERS, "replicas": lambda _: held(None), "leaders": lambda _: held(1)}
    return object_table([str(b.id) for b in brokers], brokers, own, lambda b: tags.get(b.id, _NO_TAGS))


def why_none(query: Node, table: ObjectTable) -> tuple[str, ...]:
    """Of the first objects, what keeps each from matching: lines for an error."""
    rows = range(min(len(table.names), _SHOWN))
    lines = [f"  {table.names[i]}: {'; '.join(explain(query, table, i)[1])}" for i in rows]
    return (*lines, *(["  ..."] if len(table.names) > _SHOWN else []))


def topics_where(snapshot: ClusterSnapshot, query: Node) -> list[str]:
    """The topics that match, in the snapshot's order; `UsageError` where tags are needed and not known."""
    table = topic_table(snapshot)
    _require(snapshot, query, table, TOPIC_KEYS)
    return names_matching(query, table)


def brokers_where(snapshot: ClusterSnapshot, query: Node) -> list[int]:
    """The ids of the brokers that match, in the snapshot's order; raises like `topics_where`."""
    table = broker_table(snapshot)
    _require(snapshot, query, table, BROKER_KEYS)
    return [int(name) for name in names_matching(query, table)]


def _require(snapshot: ClusterSnapshot, query: Node, table: ObjectTable, own: frozenset[str]) -> None:
    """Refuse tags that are not known, and keys that no object has and that are nearly an attribute's name."""
    require_tags(snapshot, tag_keys(query, own))
    for key, near in unknown_keys(query, table, own):
        if near is not None:
            raise UsageError(f"nothing here has {key}", hint=f"did you mean {near}?")


def require_tags(snapshot: ClusterSnapshot, keys: Sequence[str]) -> None:
    """Raise `UsageError` where a tag is looked at and the snapshot has none on record."""
    if keys and snapshot.tags is None:
        raise UsageError(
            f"{', '.join(keys)} can only be tags, and no tags are known here",
            hint="set control_store in the profile, or take the snapshot with kafkakit snapshot --tags",
        )


def _topic_bytes(topic: Topic) -> int | None:
    """The bytes of all copies; None where one partition's are unknown."""
    sizes = [sum(p.replica_bytes.values()) if p.replica_bytes else p.size_bytes for p in topic.partitions]
    return None if None in sizes else sum(s for s in sizes if s is not None)


def _under_replicated(topic: Topic) -> bool | None:
    known = [p for p in topic.partitions if p.isr is not None]
    return any(len(p.isr or ()) < len(p.replicas) for p in known) if known else None


def _dirs(broker: Broker, name: str, instead: int | None) -> int | None:
    """A figure of all log dirs together; `instead` where one of them is unknown."""
    found = [getattr(d, name) for d in broker.log_dirs]
    return sum(found) if found and None not in found else instead
