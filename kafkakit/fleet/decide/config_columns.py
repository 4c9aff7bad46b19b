"""Settings of brokers and topics, set and declared in files, as columns without any secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.core.cluster_facts import ConfigLayer, LayeredValue
from kafkakit.core.model import ClusterSnapshot
from kafkakit.lint.api import TopicPiece
from kafkakit.rules.values import HIDDEN, holds_secret_in_address, is_secret_key, literal_jaas_options, looks_secret

Columns = Mapping[str, Sequence[Any]]


def columns_of(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Rows as columns of these names."""
    columns = list(zip(*rows, strict=True)) if rows else [() for _ in names]
    return dict(zip(names, columns, strict=True))


def storable(key: str, value: str | None, *, is_known: bool) -> str | None:
    """The value of a setting, or None where it is a secret or holds one.

    `is_known` is True for settings that a broker knows: of others those are left out whose name only looks like that
    of a secret.
    """
    if value is None or value == HIDDEN or is_secret_key(key) or (not is_known and looks_secret(key)):
        return None
    return None if holds_secret_in_address(value) or literal_jaas_options(value) else value


SOURCES: Mapping[ConfigLayer, str] = {
    ConfigLayer.STATIC: "static",
    ConfigLayer.DYNAMIC_BROKER: "dynamic-broker",
    ConfigLayer.DYNAMIC_DEFAULT: "dynamic-default",
    ConfigLayer.DEFAULT: "default",
}


def broker_config_columns(configs: Mapping[int, Mapping[str, LayeredValue]]) -> Columns:
    """The table `broker_configs`; `is_sensitive` also where the value was left out because it looks like a secret."""
    rows = []
    for broker, values in sorted(configs.items()):
        for key, given in values.items():
            value = None if given.is_sensitive else storable(key, given.value, is_known=True)
            is_secret = given.is_sensitive or (value is None and given.value is not None)
            rows.append((broker, key, value, SOURCES[given.layer], given.is_read_only, is_secret))
    return columns_of(("broker", "key", "value", "source", "is_read_only", "is_sensitive"), rows)


def topic_config_columns(snapshot: ClusterSnapshot) -> Columns:
    """The table `topic_configs`: settings made for a topic itself."""
    rows = []
    for topic in snapshot.topics:
        for key, given in sorted(topic.configs.items()):
            value = storable(key, given, is_known=False)
            rows.append((topic.name, key, value, "topic", value is None))
    return columns_of(("topic", "key", "value", "source", "is_sensitive"), rows)


_Row = tuple[str, str, str | None, str | None, int | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredFacts:
    """Labels and owner of a declared topic."""

    labels: tuple[str, ...]
    owner: str | None


def declared_topics(pieces: Sequence[TopicPiece], cluster: str) -> tuple[TopicPiece, ...]:
    """The declared topics among the pieces of files that belong to the cluster: those that name no other one."""
    return tuple(piece for piece in pieces if piece.is_declared and piece.cluster in (None, cluster))


def declared_facts(topics: Sequence[TopicPiece]) -> dict[str, DeclaredFacts]:
    """Labels and owner by topic; of a topic that is declared twice, those of the last place."""
    return {t.name: DeclaredFacts(labels=tuple(sorted(t.labels)), owner=t.owner) for t in topics}


def declared_columns(topics: Sequence[TopicPiece]) -> Columns:
    """The table `declared`: a row for each topic, its numbers of partitions and replicas, and each of its settings."""
    rows = [row for topic in topics for row in _rows(topic)]
    names = ("topic", "key", "value", "file", "line", "owner")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def _rows(topic: TopicPiece) -> list[_Row]:
    numbers = {"": None, "partitions": topic.partitions, "replication": topic.replication_factor}
    file, line = (topic.place.path, topic.place.line) if topic.place else (None, None)
    rows: list[_Row] = [
        (topic.name, key, None if number is None else str(number), file, line, topic.owner)
        for key, number in numbers.items()
        if key == "" or number is not None
    ]
    for key, value in sorted(topic.configs.items()):
        place = value.place
        at = (place.path, place.line) if place else (file, line)
        rows.append((topic.name, key, storable(key, value.text, is_known=False), *at, topic.owner))
    return rows
