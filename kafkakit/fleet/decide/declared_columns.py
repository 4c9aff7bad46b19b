"""What files declare of a cluster's topics, as columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.fleet.decide.stored_values import storable
from kafkakit.lint.api import TopicPiece

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


def declared_columns(topics: Sequence[TopicPiece]) -> Mapping[str, Sequence[Any]]:
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
