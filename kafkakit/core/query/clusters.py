"""Brokers and topics of a snapshot as tables for queries: attributes that every one has, and tags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Topic
from kafkakit.core.query.columns import (
    Column,
    ObjectTable,
    flag_column,
    number_column,
    tag_column,
    text_column,
)
from kafkakit.core.query.evaluate import explain, names_matching
from kafkakit.core.query.nodes import Node, keys_of
from kafkakit.core.tags import TagSet

CONFIG = "config."
_SHOWN = 5
Makers = Mapping[str, Callable[[Sequence[Topic]], Column]]

_TOPICS: Makers = {
    "name": lambda topics: text_column([t.name for t in topics]),
    "partitions": lambda topics: number_column([len(t.partitions) for t in topics]),
    "replication": lambda topics: number_column(
        [max((len(p.replicas) for p in t.partitions), default=0) for t in topics]
    ),
    "bytes": lambda topics: number_column([_topic_bytes(t) for t in topics]),
    "under_replicated": lambda topics: flag_column([_under_replicated(t) for t in topics]),
    "internal": lambda topics: flag_column([t.name.startswith("__") for t in topics]),
}
TOPIC_KEYS = frozenset(_TOPICS)
BROKER_KEYS = frozenset(
    {"id", "host", "port", "rack", "state", "is_alive", "free_bytes", "total_bytes", "replicas", "leaders"}
)


def topic_table(snapshot: ClusterSnapshot) -> ObjectTable:
    """The topics; `config.NAME` are settings that differ from the broker's. O(topics) for each key used."""
    topics = snapshot.topics

    def column(key: str) -> Column | None:
        if key in _TOPICS:
            return _TOPICS[key](topics)
        if key.startswith(CONFIG):
            return tag_column([t.configs for t in topics], key.removeprefix(CONFIG))
        tags = (snapshot.tags or TagSet()).topics
        return tag_column([tags.get(t.name, {}) for t in topics], key)

    return ObjectTable(tuple(t.name for t in topics), column)


def broker_table(snapshot: ClusterSnapshot) -> ObjectTable:
    """The brokers that are registered; names are their ids."""
    brokers = [b for b in snapshot.brokers if b.state != "missing"]

    def column(key: str) -> Column | None:
        if key in BROKER_KEYS:
            return _broker_column(key, brokers, snapshot)
        tags = (snapshot.tags or TagSet()).brokers
        return tag_column([tags.get(b.id, {}) for b in brokers], key)

    return ObjectTable(tuple(str(b.id) for b in brokers), column)


def why_none(query: Node, table: ObjectTable) -> tuple[str, ...]:
    """Of the first objects, what keeps each from matching: lines for an error."""
    rows = range(min(len(table.names), _SHOWN))
    lines = [f"  {table.names[i]}: {'; '.join(explain(query, table, i)[1])}" for i in rows]
    return (*lines, *(["  ..."] if len(table.names) > _SHOWN else []))


def tag_keys(query: Node, own: frozenset[str]) -> list[str]:
    """The keys of a query that are neither attributes (`own`) nor settings, so that tags must be known. Sorted."""
    return sorted(k for k in keys_of(query) if k not in own and not k.startswith(CONFIG))


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
    from difflib import get_close_matches

    keys = tag_keys(query, own)
    require_tags(snapshot, keys)
    for key in keys:
        near = get_close_matches(key, own, 1, 0.75)
        if near and table.column(key) is None:
            raise UsageError(f"nothing here has {key}", hint=f"did you mean {near[0]}?")


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


def _broker_column(key: str, brokers: Sequence[Broker], snapshot: ClusterSnapshot) -> Column:
    match key:
        case "host":
            return text_column([b.host or None for b in brokers])
        case "rack":
            return text_column([b.rack or None for b in brokers])
        case "state":
            return text_column([str(b.state) for b in brokers])
        case "is_alive":
            return flag_column([b.is_alive for b in brokers])
        case "replicas" | "leaders":
            first = 1 if key == "leaders" else None
            held = Counter(b for _, p in snapshot.partitions() for b in p.replicas[:first])
            return number_column([held[b.id] for b in brokers])
        case "free_bytes":
            return number_column([_dirs(b, "usable_bytes", b.storage_free_bytes) for b in brokers])
        case "total_bytes":
            return number_column([_dirs(b, "total_bytes", None) for b in brokers])
    return number_column([b.id if key == "id" else b.port for b in brokers])


def _dirs(broker: Broker, name: str, instead: int | None) -> int | None:
    """A figure of all log dirs together; `instead` where one of them is unknown."""
    found = [getattr(d, name) for d in broker.log_dirs]
    return sum(found) if found and None not in found else instead
